"""Attention over paged keys and values, for any network of `transformers` that lets us register it.

A step is one flat batch ``[1, tokens, ...]``. Each layer first writes the step's keys and values into its
pool, then every query attends to the positions of its own sequence up to its own. Rows of like length
share one padded call; what is padding or lies ahead is masked, so no row sees another. The pool is one
tensor a layer, ``[blocks, block_size, 2, key_value_heads, head_dim]``: a block's keys and values lie
together and are gathered in one copy. The caller hands the `Plan` to the network's forward as
``strop_plan``. No mask function is registered: for such an implementation transformers builds no mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from strop.errors import Refusal

IMPLEMENTATION = "strop_paged"

_HARMLESS = frozenset(("is_causal", "position_ids", "use_cache", "output_attentions", "position_embeddings"))
"""Arguments that networks pass to every attention and that say nothing new to this one."""


@dataclass(frozen=True)
class KVShape:
    """What one layer keeps for each token."""

    heads: int
    head_dim: int


class Probe:
    """Given to a forward in place of a plan, it learns what every layer keeps, and computes nothing."""

    def __init__(self) -> None:
        self.layers: dict[int, KVShape] = {}

    def note(self, module: Any, key: Tensor, value: Tensor, attention_mask: Tensor | None) -> None:
        """Record a layer.

        Raises:
            Refusal: it attends in a way that pages of keys and values under a causal mask cannot express.
        """
        name, layer = type(module).__name__, module.layer_idx
        if not getattr(module, "is_causal", True):
            raise _unsupported("attention to later tokens", name)
        if attention_mask is not None:
            raise _unsupported("attention under a mask of the network's own", name)
        if key.shape != value.shape:
            raise _unsupported("keys and values of unequal width", name)
        if layer in self.layers:
            raise _unsupported("several attentions in one layer", name)
        self.layers[layer] = KVShape(key.shape[1], key.shape[3])


@dataclass
class Bucket:
    """Rows that share one padded call; their tokens follow each other in the flat batch."""

    first: int
    last: int
    """Its flat tokens are ``first`` to ``last``."""
    positions: Tensor
    """``[rows, queries]``; padding has position 0."""
    table: Tensor
    """``[rows * blocks]``, block ids."""
    spread: Tensor | None
    """``[rows * queries]``: from which token of the bucket each padded query comes; None without padding."""
    gather: Tensor | None
    """``[last - first]``: at which padded query each token sits; None without padding."""
    _masks: dict[int | None, Tensor] = field(default_factory=dict)

    def mask(self, keys: int, window: int | None, dtype: torch.dtype) -> Tensor:
        """``[rows, 1, queries, keys]``: 0 where a query sees a key, minus infinity elsewhere."""
        if window not in self._masks:
            at = torch.arange(keys, device=self.positions.device)
            ahead = at > self.positions[:, None, :, None]
            if window is not None:
                ahead |= at <= self.positions[:, None, :, None] - window
            mask = torch.zeros(ahead.shape, dtype=dtype, device=ahead.device)
            self._masks[window] = mask.masked_fill_(ahead, -torch.inf)
        return self._masks[window]


@dataclass
class Plan:
    """One step as the attention sees it."""

    pools: Sequence[Tensor]
    slots: Tensor
    """``[tokens]``: where in a pool, counted in tokens, each key and value goes."""
    buckets: Sequence[Bucket]
    scratch: Tensor
    """``[values]``: where a call gathers to; memory that is new each time costs several times the copy."""


def install(network: Any) -> tuple[KVShape, ...]:
    """Give a network this attention; returns what each layer keeps, learnt from a forward over two tokens.

    Raises:
        Refusal: the network's attention is of a kind that cannot be paged here.
    """
    name, config = type(network).__name__, network.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention", "sliding_attention"}
    if kinds:
        raise _unsupported(f"layers of the kind {', '.join(sorted(kinds))}", name)
    AttentionInterface.register(IMPLEMENTATION, paged_attention)
    network.set_attn_implementation(IMPLEMENTATION)
    seen = Probe()
    ids = torch.zeros((1, 2), dtype=torch.long, device=network.device)
    if network.config._attn_implementation == IMPLEMENTATION:
        with torch.inference_mode():
            positions = torch.arange(2, device=network.device)[None]
            network(input_ids=ids, position_ids=positions, use_cache=False, strop_plan=seen)
    if sorted(seen.layers) != list(range(config.num_hidden_layers)):
        raise _unsupported("layers that do not go through the attention interface of transformers", name)
    return tuple(seen.layers[index] for index in sorted(seen.layers))


def paged_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None, **asked: Any
) -> tuple[Tensor, None]:
    """The function that transformers calls; `asked` holds the plan, scaling and window among others.

    `query` is ``[1, heads, tokens, head_dim]``, the answer ``[1, tokens, heads, head_dim]``.

    Raises:
        Refusal: the network asks for something that would change the result, a soft cap for instance.
    """
    plan, scaling, window = (asked.pop(name, None) for name in ("strop_plan", "scaling", "sliding_window"))
    unknown = [
        name for name, said in asked.items() if name not in _HARMLESS and (isinstance(said, Tensor) or said)
    ]
    if unknown:
        raise _unsupported(f"attention with {', '.join(unknown)}", type(module).__name__)
    if plan is None:
        raise _unsupported("networks that keep extra arguments from their attention", type(module).__name__)
    if isinstance(plan, Probe):
        plan.note(module, key, value, attention_mask)
        return query.transpose(1, 2), None
    pool = plan.pools[module.layer_idx]
    fresh = torch.stack((key[0].transpose(0, 1), value[0].transpose(0, 1)), dim=1)
    pool.flatten(0, 1).index_copy_(0, plan.slots, fresh)
    queries = query[0].transpose(0, 1)
    scale = query.shape[3] ** -0.5 if scaling is None else scaling
    parts = [
        _attend(queries[bucket.first : bucket.last], pool, bucket, plan.scratch, scale, window)
        for bucket in plan.buckets
    ]
    return torch.cat(parts)[None], None


def _attend(
    query: Tensor, pool: Tensor, bucket: Bucket, scratch: Tensor, scale: float, window: int | None
) -> Tensor:
    """``[tokens, heads, head_dim]`` in and out."""
    rows, queries = bucket.positions.shape
    kv_heads, head_dim = pool.shape[3:]
    heads = query.shape[1]
    blocks = pool.flatten(1)
    room = scratch[: len(bucket.table) * blocks.shape[1]].view(-1, blocks.shape[1])
    found = torch.index_select(blocks, 0, bucket.table, out=room).view(rows, -1, 2, kv_heads, head_dim)
    keys, values = found[:, :, 0].transpose(1, 2), found[:, :, 1].transpose(1, 2)
    mask = bucket.mask(keys.shape[2], window, query.dtype)
    if queries == 1:  # the queries of a group stand where one query's positions would
        grouped = query.reshape(rows, kv_heads, heads // kv_heads, head_dim)
        out = scaled_dot_product_attention(grouped, keys, values, mask, scale=scale)
        return out.reshape(rows, heads, head_dim)
    padded = query if bucket.spread is None else query.index_select(0, bucket.spread)
    padded = padded.reshape(rows, queries, heads, head_dim).transpose(1, 2)
    out = scaled_dot_product_attention(padded, keys, values, mask, scale=scale, enable_gqa=heads != kv_heads)
    out = out.transpose(1, 2).reshape(rows * queries, heads, head_dim)
    return out if bucket.gather is None else out.index_select(0, bucket.gather)


def _unsupported(what: str, where: str) -> Refusal:
    return Refusal(
        f"the engine does not support {what}",
        where=where,
        remedy="choose a decoder with plain, grouped-query or sliding-window attention "
        "(Llama, Qwen3, Mistral, Gemma 3, ...)",
    )
