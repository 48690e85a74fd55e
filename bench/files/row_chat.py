#!/usr/bin/env python3
"""Row: 60 conversations a format (system, empty, several turns, odd roles, thoughts; no tools) against transformers' apply_chat_template: the format is
recognised from the template, text and ids are identical, and where the template raises we refuse."""
import importlib.metadata
import json
import random
import subprocess
import sys

from chat_templates import TEMPLATES
from text_lib import HERE, folder, hf_tokenizer
from weights_lib import build_tool

WORDS = ["hello", "the", "Größe", "数据", "नमस्ते", "\n", "  ", "x=1;", "👩‍💻", "", "I'm", "\t", "<think>a</think>b", "don't", "e\u0301"]
KINDS = {"chatml": ("qwen", "<|endoftext|>", "<|im_end|>", []), "llama3": ("llama3", "<|endoftext|>", "<|eot_id|>", ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]),
         "llama2": ("llama2", "<s>", "</s>", []), "mistral": ("mistral", "<s>", "</s>", ["[INST]", "[/INST]"])}
FAMILY = {"chatml": "chatml", "smollm2": "chatml", "qwen2.5": "chatml", "qwen3": "chatml", "llama3": "llama3", "llama3.1": "llama3", "llama3.2": "llama3",
          "llama2": "llama2", "mistral-v0.1": "llama2", "mistral": "mistral", "mistral-nemo": "mistral"}


def conversations(rng):
    def text():
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, 8)))
    out = []
    for k in range(60):
        messages = [{"role": "system", "content": text()}] if rng.random() < 0.5 else []
        messages += [{"role": ("user", "assistant")[i % 2], "content": text()} for i in range(rng.randint(0 if messages and rng.random() < 0.2 else 1, 6))]
        if k % 5 == 4:
            messages.insert(rng.randrange(len(messages)), {"role": rng.choice(["tool", "critic", "user", "system", "ipython", "developer"]), "content": text()})
        if k % 7 == 3:
            for m in messages:
                if m["role"] == "assistant":
                    m["content"] = "<think>\n" + text() + "\n</think>\n\n" + m["content"]
        out.append({"messages": messages, "generation": rng.random() < 0.5, "no_thinking": rng.random() < 0.3})
    return out


def expected(tokenizer, row):
    more = {"enable_thinking": False} if row["no_thinking"] else {}
    try:
        return (tokenizer.apply_chat_template(row["messages"], tokenize=False, add_generation_prompt=row["generation"], **more),
                tokenizer.apply_chat_template(row["messages"], tokenize=True, add_generation_prompt=row["generation"], return_dict=False, **more))
    except Exception:  # the template raised
        return None, None


def main(build):
    sys.path.insert(0, str(HERE.parent))
    from lib import emit
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast
    tool, rng, wrong, same, refused = build_tool(build, "render_chat"), random.Random(1), [], 0, 0
    for name, template in TEMPLATES.items():
        kind, bos, eos, extra = KINDS[FAMILY[name]]
        base, _ = hf_tokenizer(build, kind)
        if extra:
            base.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in extra])
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=base, bos_token=bos, eos_token=eos, chat_template=template)
        model, rows = folder(build) / f"chat-{name}", conversations(rng)
        tokenizer.save_pretrained(model)
        (folder(build) / "conversations.json").write_text(json.dumps(rows))
        run = subprocess.run([tool, str(model), str(folder(build) / "conversations.json")], capture_output=True, text=True)
        if run.returncode or json.loads(run.stdout)["format"] != name:
            wrong.append(f"{name}: not recognised: {(run.stderr or run.stdout)[:120]}")
            continue
        for index, (row, ours) in enumerate(zip(rows, json.loads(run.stdout)["rows"])):
            text, ids = expected(tokenizer, row)
            if text is None and "error" in ours:
                refused += 1
            elif text is not None and ours.get("text") == text and ours.get("ids") == ids:
                same += 1
            else:
                wrong.append(f"{name} {index}")
    return emit(build, "files", "chat", "transformers apply_chat_template", same, None, None, "identical text and ids", not wrong,
                {n: importlib.metadata.version(n) for n in ("transformers", "tokenizers")}, formats=len(TEMPLATES), refused_by_both=refused, wrong=wrong[:20])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
