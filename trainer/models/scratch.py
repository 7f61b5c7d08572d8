"""A randomly initialised Qwen3 model and a small BPE tokenizer, for the quickstart and the tests."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from verigym.trainer.rng import keyed_int

EOS, PAD = "<eos>", "<pad>"
# A tag is one piece, each digit is a piece of its own, and a word includes the space before it.
PIECES = Regex(r"</?[a-z]+>|\\boxed\{|\d|\s?\p{L}+|[\s\S]")
CONVERSATION_PIECES = Regex(r"</?[a-z_]+>|\\boxed\{|\d|\s?\p{L}+|[\s\S]")  # <tool_call> too
# The prompt's text, then a line break, after which the completion begins.
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}{% endfor %}{% if add_generation_prompt %}{{ '\n' }}{% endif %}"
)
# A line for each text that the model reads, after which its own turn begins, which ends with the end-of-sequence token.
CONVERSATION_TEMPLATE = (
    "{% if tools %}tools:{% for tool in tools %} {{ tool['function']['name'] }}{% endfor %}{{ '\n' }}{% endif %}"
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ message['content'] + eos_token }}"
    "{% elif message['role'] == 'tool' %}{{ '<result>' + message['content'] + '</result>\n' }}"
    "{% else %}{{ message['content'] + '\n' }}{% endif %}"
    "{% endfor %}"
)


def scratch_tokenizer(
    texts: Iterable[str], vocabulary_size: int = 512, *, template: str = CHAT_TEMPLATE
) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer trained on `texts`; every text survives encoding and decoding.

    Args:
        texts: the texts to train on.
        vocabulary_size: most tokens.
        template: the chat template. `CONVERSATION_TEMPLATE` is for conversations, with or without tools. With any template
            except the plain one, the tokenizer keeps `<tool_call>` in one piece.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(PIECES if template == CHAT_TEMPLATE else CONVERSATION_PIECES, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=[PAD, EOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=EOS,
        pad_token=PAD,
        chat_template=template,
        clean_up_tokenization_spaces=False,
    )


def scratch_qwen3(
    tokenizer: PreTrainedTokenizerFast,
    *,
    hidden_size: int = 256,
    layers: int = 3,
    heads: int = 4,
    intermediate_size: int = 640,
    max_positions: int = 512,
    vocabulary_size: int | None = None,
    seed: int = 0,
) -> Qwen3ForCausalLM:
    """Return a randomly initialised Qwen3 model whose weights depend on the seed alone.

    If `vocabulary_size` is above the tokenizer's, the additional tokens have no text. Published models have such tokens, too.
    """
    config = Qwen3Config(
        vocab_size=vocabulary_size or len(tokenizer),
        hidden_size=hidden_size,
        intermediate_size=intermediate_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=hidden_size // heads,
        max_position_embeddings=max_positions,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        use_cache=True,
    )
    state = torch.random.get_rng_state()
    torch.manual_seed(keyed_int(seed, "scratch model"))
    try:
        return Qwen3ForCausalLM(config)
    finally:
        torch.random.set_rng_state(state)
