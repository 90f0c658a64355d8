"""Tokens as the official library makes them.

official_tokens.py train OUT TEXTS.json        trains a tokenizer of each family into OUT/trained/<name>/
official_tokens.py encode TOKENIZER TEXTS.json prints [{ids, tokens, plain, text}, ...] for one tokenizer.json
official_tokens.py render CHATS.json           prints the texts of chats: [{template, variables, wallMs}, ...]
"""

import json
import os
import sys
from datetime import datetime, timezone

from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT4_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
VOCABULARY = 1500


def gpt2():
    """As GPT-2: bytes, merges, no normalizer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return tokenizer, trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"])


def llama3():
    """As Llama 3 and tiktoken's vocabularies: a split by expression, bytes, merges that spare whole words, a first token."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    split = pre_tokenizers.Split(Regex(GPT4_SPLIT), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return tokenizer, trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, special_tokens=["<s>", "<|eot|>"])


def llama2():
    """As Llama 2 and Mistral 7B: SentencePiece BPE, spaces as a letter, unknown letters as bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    return tokenizer, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special)


def t5():
    """As T5 and XLM-R: Unigram, with an end token."""
    tokenizer = Tokenizer(models.Unigram())
    collapse = normalizers.Replace(Regex(" {2,}"), " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), collapse])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer, trainers.UnigramTrainer(vocab_size=VOCABULARY, unk_token="<unk>", special_tokens=["<pad>", "</s>", "<unk>"])


def bert():
    """As BERT: WordPiece, lower case, accents stripped."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
    specials = [("[CLS]", 1), ("[SEP]", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair=pair, special_tokens=specials)
    return tokenizer, trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=["[UNK]", "[CLS]", "[SEP]"])


FAMILIES = {"gpt2": gpt2, "llama2": llama2, "llama3": llama3, "t5": t5, "bert": bert}


def train(folder, texts):
    # A special token among the texts would be learned a second time, under another id.
    special = ("<pad>", "</s>", "<unk>", "<s>", "[CLS]", "[SEP]", "[UNK]", "<|", "<0x")
    texts = [text for text in texts if not any(token in text for token in special)]
    for name, make in FAMILIES.items():
        tokenizer, trainer = make()
        trainer.show_progress = False
        if name == "llama2":
            # Words are units for its trainer only; the model itself merges over the whole text.
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
        tokenizer.train_from_iterator(texts, trainer)
        if name == "llama2":
            content = json.loads(tokenizer.to_str())
            content["pre_tokenizer"] = None
            tokenizer = Tokenizer.from_str(json.dumps(content))
        if name in ("gpt2", "llama3"):
            tokenizer.add_special_tokens([AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True)])
        target = os.path.join(folder, "trained", name)
        os.makedirs(target, exist_ok=True)
        tokenizer.save(os.path.join(target, "tokenizer.json"))
        with open(os.path.join(target, "tokenizer_config.json"), "w") as file:
            json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": int(1e30)}, file)


def encode(path, texts):
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    answers = []
    for text in texts:
        whole = tokenizer.encode(text)
        plain = tokenizer.encode(text, add_special_tokens=False)
        back = tokenizer.decode(whole.ids, skip_special_tokens=False)
        answers.append({"ids": whole.ids, "tokens": whole.tokens, "plain": plain.ids, "text": back})
    return answers


class Generation(Extension):
    """The tag that marks what the assistant said; it changes no text."""

    tags = {"generation"}

    def parse(self, parser):
        parser.stream.skip(1)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def render(chats):
    """As transformers' apply_chat_template sets Jinja up. Gives {text}, or {error} where the template refuses."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson

    def raise_exception(message):
        raise TemplateError(message)

    environment.globals["raise_exception"] = raise_exception
    answers = []
    for chat in chats:
        now = datetime.fromtimestamp(chat["wallMs"] / 1000, timezone.utc)
        environment.globals["strftime_now"] = now.strftime
        try:
            answers.append({"text": environment.from_string(chat["template"]).render(**chat["variables"])})
        except Exception as error:  # whatever the template or Jinja does not like
            answers.append({"error": f"{type(error).__name__}: {error}"})
    return answers


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def main():
    command, argument = sys.argv[1], sys.argv[2]
    if command == "render":
        with open(argument, encoding="utf-8") as file:
            print(json.dumps(render(json.load(file))))
        return
    with open(sys.argv[3], encoding="utf-8") as file:
        texts = json.load(file)
    if command == "train":
        train(argument, texts)
    else:
        print(json.dumps(encode(argument, texts)))


main()
