"""Which attentions are paged, and which are refused; that the paged ones are exact is in tests/invariant."""

from collections.abc import Callable

import pytest
import torch
from transformers import (
    BertConfig,
    BertLMHeadModel,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    Llama4ForCausalLM,
    Llama4TextConfig,
    MambaConfig,
    MambaForCausalLM,
    PreTrainedModel,
    StableLmConfig,
    StableLmForCausalLM,
)

from strop.engine.attention import IMPLEMENTATION, Bucket, KVShape, install
from strop.engine.models import LoadedModel
from strop.errors import Refusal

SHAPE = {
    "vocab_size": 32,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "pad_token_id": 0,
}


def test_a_plain_decoder_gets_our_attention_and_tells_what_it_keeps(tiny: LoadedModel) -> None:
    assert install(tiny.network) == (KVShape(heads=2, head_dim=8),) * 2
    assert tiny.network.config._attn_implementation == IMPLEMENTATION


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Gemma2ForCausalLM(Gemma2Config(**SHAPE)), "attention with softcap"),
        (
            lambda: GptOssForCausalLM(
                GptOssConfig(**SHAPE, num_local_experts=2, num_key_value_heads=2, rope_parameters=None)
            ),
            "attention with s_aux",
        ),
        (
            lambda: DeepseekV3ForCausalLM(
                DeepseekV3Config(
                    **SHAPE,
                    num_key_value_heads=4,
                    first_k_dense_replace=2,
                    q_lora_rank=8,
                    kv_lora_rank=8,
                    qk_nope_head_dim=8,
                    qk_rope_head_dim=8,
                    v_head_dim=8,
                    rope_parameters=None,
                )
            ),
            "keys and values of unequal width",
        ),
        (
            lambda: Llama4ForCausalLM(
                Llama4TextConfig(
                    **SHAPE, num_key_value_heads=2, num_local_experts=2, intermediate_size_mlp=32
                )
            ),
            "layers of the kind chunked_attention",
        ),
        (
            lambda: MambaForCausalLM(MambaConfig(vocab_size=32, hidden_size=32, num_hidden_layers=2)),
            "layers of the kind linear_attention",
        ),
        (
            lambda: StableLmForCausalLM(StableLmConfig(**SHAPE, num_key_value_heads=4)),
            "keep extra arguments from their attention",
        ),
        (lambda: BertLMHeadModel(BertConfig(**SHAPE)), "attention to later tokens"),
    ],
)
def test_what_would_not_be_exact_is_refused(build: Callable[[], PreTrainedModel], said: str) -> None:
    with pytest.raises(Refusal) as caught:
        install(build().eval())
    assert said in str(caught.value)
    assert "choose a decoder" in str(caught.value)


def test_a_mask_hides_what_is_ahead_and_what_has_left_the_window() -> None:
    bucket = Bucket(0, 2, torch.tensor([[0], [3]]), torch.zeros(2, dtype=torch.long), None, None)
    seen = bucket.mask(keys=5, window=None, dtype=torch.float32) == 0
    assert seen[:, 0, 0].tolist() == [[True] + [False] * 4, [True] * 4 + [False]]
    seen = bucket.mask(keys=5, window=2, dtype=torch.float32) == 0
    assert seen[:, 0, 0].tolist() == [[True] + [False] * 4, [False, False, True, True, False]]
