/* The table of checks, causes before what they cause. */
#include "host/check.h"

#define DRIVER_STUCK "the driver does not answer: look for Xid lines (dmesg), stop what uses the cards, reload the module or reboot the host"
#define FILES_STUCK "a file the check reads does not answer: find the dead mount (ljperf doctor names it under mounts) and unmount it: umount -l"

const lj_check lj_checks[] = {
    {"mounts", "network and FUSE mounts answer", lj_check_mounts, 1.0, false, "unmount it (umount -l PATH) or bring its server back; a job that touches it hangs", LJ_VERDICT_FAIL},
    {"driver", "NVIDIA driver against the CUDA runtime and the image", lj_check_driver, 0.9, false, DRIVER_STUCK, LJ_VERDICT_FAIL},
    {"ppu_driver", "PPU driver, SDK and devices", lj_check_ppu, 1.0, false, DRIVER_STUCK, LJ_VERDICT_FAIL},
    {"amd_driver", "AMD driver, ROCm and devices", lj_check_amd, 0.9, false, DRIVER_STUCK, LJ_VERDICT_FAIL},
    {"driver_libraries", "user-space driver libraries agree with the kernel module", lj_check_driver_libraries, 0.9, false, FILES_STUCK, LJ_VERDICT_FAIL},
    {"compat_order", "which libcuda.so.1 is loaded: the driver's or the compatibility package's", lj_check_compat_order, 0.9, false, FILES_STUCK, LJ_VERDICT_FAIL},
    {"devices", "device files of the cards", lj_check_devices, 0.8, false, FILES_STUCK, LJ_VERDICT_FAIL},
    {"nvml", "the cards as NVML reports them", lj_check_nvml, 1.3, true, DRIVER_STUCK, LJ_VERDICT_FAIL},
    {"cuda_start", "cuInit of the driver library", lj_check_cuda_start, 1.3, true, DRIVER_STUCK, LJ_VERDICT_FAIL},
    {"fabric_manager", "NVSwitch machines: fabric manager runs, same version as the driver", lj_check_fabric_manager, 0.8, false, FILES_STUCK, LJ_VERDICT_FAIL},
    {"container_toolkit", "container engines can hand cards to containers", lj_check_container_toolkit, 0.8, false, FILES_STUCK, LJ_VERDICT_FAIL},
    {"kernel_log", "Xid and other lines that explain failures", lj_check_kernel_log, 0.8, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"cuda_runtimes", "one CUDA runtime in the tree", lj_check_cuda_runtimes, 1.0, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"needed_libraries", "libraries that binaries need against those that are there", lj_check_needed_libraries, 1.2, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"symbol_versions", "GLIBC, GLIBCXX and CXXABI versions that binaries need", lj_check_symbol_versions, 1.2, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"patched_packages", "the image's patched packages are still the patched ones", lj_check_patched_packages, 1.2, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"package_requirements", "installed Python packages fit each other", lj_check_package_requirements, 1.2, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"package_files", "files of Python packages are those of their RECORD", lj_check_package_files, 1.2, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"image", "the image's requirements and run section against this system", lj_check_image, 0.9, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"environment", "variables that hurt", lj_check_environment, 0.8, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"job", "the job file against the image and this host", lj_check_job, 0.8, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"network", "interfaces, the one that is taken and why, MTU", lj_check_network, 0.9, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"rdma", "RDMA devices and their links", lj_check_rdma, 0.9, false, DRIVER_STUCK, LJ_VERDICT_FAIL},
    {"host_name", "the host's name leads to an address that peers can reach", lj_check_host_name, 0.8, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"shared_memory", "/dev/shm against the ranks", lj_check_shared_memory, 0.8, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"memory", "memory and its cgroup limit", lj_check_memory, 0.8, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"cpu_quota", "CPU quota and set against the threads", lj_check_cpu_quota, 0.8, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"process_limits", "locked memory, open files, processes, stack", lj_check_process_limits, 0.8, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"disk_space", "room and inodes where jobs write", lj_check_disk_space, 0.8, true, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"compiler", "a C compiler for generated kernels", lj_check_compiler, 1.0, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"cache_folder", "the kernel cache's folder", lj_check_cache_folder, 0.8, true, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"cpu", "instruction sets", lj_check_cpu, 0.8, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"huge_pages", "transparent and reserved huge pages", lj_check_huge_pages, 0.8, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"numa", "memory nodes", lj_check_numa, 0.8, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"clock_source", "the kernel's clock", lj_check_clock_source, 0.8, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"clock_sync", "the clock is kept in step", lj_check_clock_sync, 0.8, true, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
    {"kernel_settings", "sysctls that jobs depend on", lj_check_kernel_settings, 0.8, false, FILES_STUCK, LJ_VERDICT_NOT_AVAILABLE},
};

const size_t lj_check_count = sizeof lj_checks / sizeof *lj_checks;
