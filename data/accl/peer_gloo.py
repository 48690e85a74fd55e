"""What `ljperf comm bench --compare gloo` runs: one collective of torch.distributed over Gloo, timed as ljperf times its own.
usage: peer_gloo.py COLLECTIVE MIN_BYTES MAX_BYTES EFFORT IN_PLACE RANKS"""
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def operation(name, bytes_, rank, world):
    count = bytes_ // 4
    x = torch.ones(count)
    if name == "all_reduce":
        return lambda: dist.all_reduce(x)
    if name == "broadcast":
        return lambda: dist.broadcast(x, 0)
    if name == "reduce":
        return lambda: dist.reduce(x, 0)
    if name == "all_gather":
        parts = [torch.empty(count) for _ in range(world)]
        return lambda: dist.all_gather(parts, x)
    if name == "reduce_scatter":
        wide = torch.ones(count * world)
        return lambda: dist.reduce_scatter_tensor(x, wide)
    wide, out = torch.ones(count * world), torch.empty(count * world)
    return lambda: dist.all_to_all_single(out, wide)


def worker(rank, world, port, name, low, high, effort):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    size = low
    while size <= high:
        # Gloo takes a thousand times longer for small sizes: fewer calls give the same certainty
        iterations = max(2, int((200 if size < 65536 else 40 if size < 4 << 20 else 5) * effort))
        run, best = operation(name, size, rank, world), 1e9
        for _ in range(iterations // 10 + 1):
            run()
        for _ in range(5):
            dist.barrier()
            t = time.perf_counter()
            for _ in range(iterations):
                run()
            best = min(best, (time.perf_counter() - t) / iterations)
        if rank == 0:
            print(f"{size} {best * 1e6:.4f}", flush=True)
        size *= 2
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    collective, low, high, effort, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[6])
    mp.spawn(worker, args=(world, free_port(), collective, low, high, effort), nprocs=world)
