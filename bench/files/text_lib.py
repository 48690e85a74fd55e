"""What the rows about text share: the mixed text, tokenizers of each kind trained by their own libraries, and ids as the product gives them."""
import io
import json
import os
import pathlib
import random
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def folder(build):
    out = pathlib.Path(build) / "bench" / "text"
    out.mkdir(parents=True, exist_ok=True)
    return out


def code_text(least):
    out, size = [], 0
    for path in sorted(pathlib.Path(os.__file__).parent.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        out.append(text)
        size += len(text)
        if size >= least:
            break
    return "".join(out)[:least]


def mixed_text():
    """2 MB and more: code, Chinese, Arabic, Hindi, emoji with joiners, combining marks, control bytes, odd spaces, rare and unassigned characters."""
    rng = random.Random(7)
    short = ["这是一个测试文件，包含中文字符、标点符号以及数字１２３和123。床前明月光，疑是地上霜。", "هذا نص عربي للاختبار، يحتوي على أرقام ١٢٣ و 456؛ بِسْمِ اللَّهِ",
             "यह हिन्दी का परीक्षण है। संख्याएँ १२३ और 456। नमस्ते दुनिया", "👩‍👩‍👧‍👦 👨🏽‍💻 🏳️‍🌈 ❤️‍🔥 🇩🇪🇫🇷 ☝🏿 1️⃣ ‼️", "안녕하세요 세계! 한국어 문장입니다.", "これはテストです。カタカナ、ＡＢＣ ｱｲｳ",
             "Съешь ещё этих булок. I'm you're WE'LL it's 'S"]
    ends = [" ", "\n", "\n\n", "  ", "\t", "\r\n", " \u3000", "\u00a0", "\u2003", "\u180e", ""]

    def span(low, high, count):
        return "".join(chr(rng.randint(low, high)) for _ in range(count))

    everything = [c for c in range(1, 0x30000) if not 0xD800 <= c < 0xE000]
    parts = [code_text(700000)]
    parts += [rng.choice(short) * rng.randint(1, 4) + rng.choice(ends) for _ in range(600)]
    parts += [span(0x4E00, 0x9FFF, 60000), span(0x600, 0x6FF, 30000), span(0x900, 0x97F, 30000), span(32, 126, 100000), span(0xAC00, 0xD7A3, 20000)]
    parts.append("".join("e" + "".join(chr(rng.randint(0x300, 0x36F)) for _ in range(rng.randint(0, 5))) for _ in range(20000)))
    parts.append("".join(chr(rng.choice([*range(32), 127, 128, 133, 159, 160])) for _ in range(30000)))
    parts.append("".join(chr(rng.choice([32, 32, 32, 10, 13, 9, 0xA0, 0x2028, 0x3000, 0x85, 97])) for _ in range(100000)))
    parts.append("".join(chr(rng.choice(everything)) for _ in range(60000)))
    parts.append(" ".join(str(rng.randint(0, 10 ** rng.randint(1, 12))) for _ in range(20000)))
    return "".join(parts)


def broken_bytes(text):
    """Broken UTF-8 of the kinds on which llama.cpp does not abort (it does on code points beyond U+10FFFF)."""
    rng = random.Random(8)
    data = bytearray(text[:300000].encode() + text[-100000:].encode())
    for _ in range(20000):
        data[rng.randrange(len(data))] = rng.randrange(0xF4)
    for _ in range(2000):
        at = rng.randrange(len(data))
        data[at:at] = rng.choice([b"\xe6\xad", b"\xf0\x9f", b"\xc0\x80", b"\xed\xa0\x80", b"\x80\x80"])
    return bytes(data)


def texts(build):
    """name -> file: the mixed text, 1 MB of one letter, 1 MB of spaces, broken UTF-8."""
    out = folder(build)
    mixed = mixed_text()
    assert len(mixed.encode()) >= 2_000_000
    made = {"mixed": mixed.encode(), "letter": b"a" * 1_000_000, "spaces": b" " * 1_000_000, "broken": broken_bytes(mixed)}
    for name, data in made.items():
        (out / f"{name}.txt").write_bytes(data)
    return {name: out / f"{name}.txt" for name in made}


def hf_families():
    """Six and more kinds of tokenizer.json: name -> function that trains it."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    byte_level, split, sequence = pre_tokenizers.ByteLevel, pre_tokenizers.Split, pre_tokenizers.Sequence
    llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    tekken = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
              r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    raw = dict(add_prefix_space=False, use_regex=False)

    def bytes_(pre, norm=None, ignore=False):
        def train(lines):
            t = Tokenizer(models.BPE(ignore_merges=ignore))
            if norm:
                t.normalizer = norm
            t.pre_tokenizer, t.decoder = pre, decoders.ByteLevel()
            t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=6000, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"], show_progress=False,
                                                             initial_alphabet=byte_level.alphabet()))
            return t
        return train

    def characters(norm, pre, decoder):
        def train(lines):
            t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
            if norm:
                t.normalizer = norm
            if pre:
                t.pre_tokenizer = pre
            t.decoder = decoder
            special = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
            t.train_from_iterator([line[:400] for line in lines], trainers.BpeTrainer(vocab_size=6000, special_tokens=special, show_progress=False,
                                                                                      limit_alphabet=1500, max_token_length=24))
            j = json.loads(t.to_str())
            j["added_tokens"] = [a for a in j["added_tokens"] if not a["content"].startswith("<0x")]
            t = Tokenizer.from_str(json.dumps(j))
            t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
            return t
        return train

    d = decoders
    mark = d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)])
    return {"gpt2": bytes_(byte_level(add_prefix_space=False)),
            "llama3": bytes_(sequence([split(Regex(llama3), "isolated"), byte_level(**raw)]), ignore=True),
            "qwen": bytes_(sequence([split(Regex(llama3.replace("{1,3}", "")), "isolated"), byte_level(**raw)]), norm=normalizers.NFC()),
            "tekken": bytes_(sequence([split(Regex(tekken), "isolated"), byte_level(**raw)]), ignore=True),
            "falcon": bytes_(sequence([pre_tokenizers.Punctuation("contiguous"), byte_level(add_prefix_space=False), pre_tokenizers.Digits(individual_digits=False),
                                       split(Regex("[0-9][0-9][0-9]"), "isolated")]), norm=normalizers.NFKC()),
            "llama2": characters(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None, mark),
            "mistral": characters(None, pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False), mark)}


def hf_tokenizer(build, name):
    from tokenizers import Tokenizer
    path = folder(build) / f"{name}.json"
    if not path.exists():
        hf_families()[name](mixed_text().splitlines(True)).save(str(path))
    return Tokenizer.from_file(str(path)), path


def spm_model(build, name):
    """Three kinds of tokenizer.model: Llama 2's settings, sentencepiece's own defaults (nmt_nfkc), user defined pieces."""
    import sentencepiece
    kinds = {"spm_llama2": dict(byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True),
             "spm_nfkc": dict(), "spm_user": dict(byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
                                                  user_defined_symbols=["▁▁", "▁▁▁▁", "\n", "<table>"])}
    path = folder(build) / f"{name}.model"
    if not path.exists():
        lines = [line[:300] for line in mixed_text().replace("\0", "").replace("\r", "\n").split("\n") if line][:20000]
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, vocab_size=4000, model_type="bpe", character_coverage=0.995,
                                                 num_threads=2, minloglevel=2, max_sentence_length=100000, **kinds[name])
        path.write_bytes(out.getvalue())
    return sentencepiece.SentencePieceProcessor(model_file=str(path)), path


SPM_KINDS = ["spm_llama2", "spm_nfkc", "spm_user"]


def our_ids(build, tokenizer, path, special):
    command = [os.path.join(build, "ljperf"), "tokenize", "--tokenizer", str(tokenizer), "--ids", *([] if special else ["--no-special"]), str(path)]
    out = subprocess.run(command, check=True, capture_output=True).stdout
    return np.array(out.split(), dtype=np.int64)


def our_text(build, tokenizer, ids):
    return subprocess.run([os.path.join(build, "ljperf"), "detokenize", "--tokenizer", str(tokenizer)], check=True, capture_output=True,
                          input=" ".join(map(str, ids)).encode()).stdout
