"""FlashAttention-2 as three Triton kernels: one forward, one for the query's gradient, one for those of key and value.

Dao, "FlashAttention-2" (arXiv 2307.08691): a program owns a block of queries and passes over the keys with an online
softmax; the backward pass computes every weight again from the logarithm of its row's sum. No kernel adds atomically,
so equal calls give equal bits. Blocks of keys that causality or a window hides are skipped, and only blocks at an edge
compare positions. Scores are made in base 2, where a GPU has an instruction for the power.

Gradients of scores may leave the range of float16, which ends at 65,504. Their rows are therefore divided by their
largest number before a product, and multiplied by it afterwards. Products of float32 are three products of
TensorFloat-32 (2⁻²⁰), which is what tensor cores offer short of float64.

With few queries and many keys (decoding) one program reads all keys of a head: nothing splits the keys among programs.
With TRITON_INTERPRET=1 in the environment the same kernels run on a CPU, in Triton's interpreter, slowly; without it a
CPU is unsupported. Measured on a GPU: nothing yet.
"""

import math
import threading
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnsuite import implementation
from attnsuite.implementations.attention._checks import check_inputs

INTERPRETED = bool(triton.knobs.runtime.interpret)
WIDEST = 256
"""The largest width of a head that the tiles below fit into shared memory."""
LOG2_E = tl.constexpr(math.log2(math.e))
_WIDENED = tl.constexpr(INTERPRETED)  # the interpreter multiplies bfloat16 as if its bits were integers
_interpreter = threading.RLock()  # the interpreter patches triton.language while a kernel runs


class Tiles(NamedTuple):
    """How many queries and keys a program takes at a time, and how many warps work on them."""

    queries: int
    keys: int
    warps: int
    stages: int


@implementation(
    requires=["triton"],
    compiles="a kernel for each dtype, width and kind of mask, with Triton",
    lacks={
        "cpu": "Triton compiles for GPUs; TRITON_INTERPRET=1 runs its interpreter on a CPU",
        "mask_gradient": "these kernels return no gradient of a mask",
        "float64": "tensor cores' float64 is not used",
    },
    conventions={"repeated_calls": "equal_bits"},
)
def attention(
    query: Tensor,  # ... h l e
    key: Tensor,  # ... g s e
    value: Tensor,  # ... g s v
    *,
    attn_mask: Tensor | None = None,  # broadcastable to ... h l s
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: tuple[int | None, int | None] | None = None,
) -> Tensor:  # ... h l v
    """Return softmax(scale · query keyᵀ + mask) value, of shape ... h l v and the query's dtype.

    Raises ValueError for inputs that the formula does not define, and NotImplementedError for float64, widths above
    256 and the gradient of a mask.
    """
    check_inputs(query, key, value, attn_mask, 0.0, enable_gqa, window)
    if query.dtype == torch.float64:
        raise NotImplementedError("these kernels have no float64")
    if max(query.shape[-1], value.shape[-1]) > WIDEST:
        raise NotImplementedError(f"heads are at most {WIDEST} wide, not {max(query.shape[-1], value.shape[-1])}")
    if attn_mask is not None and attn_mask.requires_grad and torch.is_grad_enabled():
        raise NotImplementedError("these kernels return no gradient of a mask")
    if query.device.type == "cpu" and not INTERPRETED:
        raise NotImplementedError("Triton compiles for GPUs; TRITON_INTERPRET=1 runs its interpreter on a CPU")
    left, right = (None, None) if window is None else window
    most = query.shape[-2] + key.shape[-2]  # a wider window hides nothing more
    left = None if left is None else min(left, most)
    right = 0 if is_causal else None if right is None else min(right, most)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    shape = (*query.shape[:-1], value.shape[-1])
    query, key, value = (_four_axes(tensor) for tensor in (query, key, value))
    if attn_mask is not None:
        attn_mask = _four_axes(attn_mask).expand(*query.shape[:3], key.shape[2])
    output: Tensor = _Attention.apply(query, key, value, attn_mask, (left, right), scale)  # type: ignore[no-untyped-call]
    return output.view(shape)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        query, key, value, mask, band, scale = inputs
        output = query.new_empty(*query.shape[:3], value.shape[3])
        log_sums = torch.empty(query.shape[:3], dtype=torch.float32, device=query.device)  # base 2; b h l
        if key.shape[2] == 0:
            output.zero_()
        elif output.numel():
            tiles = _forward_tiles(query, value)
            blocks = triton.cdiv(query.shape[2], tiles.queries)
            arguments = query, key, value, mask, output, log_sums
            _launch(_forward_kernel, blocks * query.shape[0] * query.shape[1], arguments, tiles, band, scale)
        ctx.save_for_backward(query, key, value, mask, output, log_sums)
        ctx.band, ctx.scale = band, scale
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, mask, output, log_sums = ctx.saved_tensors
        d_query, d_key, d_value = (torch.zeros(t.shape, dtype=t.dtype, device=t.device) for t in (query, key, value))
        if output.numel() and key.shape[2]:
            tiles = _backward_tiles(query, value)
            means = torch.empty_like(log_sums)  # Σ output · its gradient, which is Σ weight · its gradient; b h l
            arguments = query, key, value, mask, output, log_sums, output_gradient, means
            blocks = triton.cdiv(query.shape[2], tiles.queries) * query.shape[0] * query.shape[1]
            _launch(_query_gradient_kernel, blocks, (*arguments, d_query), tiles, ctx.band, ctx.scale)
            blocks = triton.cdiv(key.shape[2], tiles.keys) * key.shape[0] * key.shape[1]
            _launch(_key_gradient_kernel, blocks, (*arguments, d_key, d_value), tiles, ctx.band, ctx.scale)
        return d_query, d_key, d_value, None, None, None


def _four_axes(tensor: Tensor) -> Tensor:
    return tensor[(None,) * (4 - tensor.dim())]


def _forward_tiles(query: Tensor, value: Tensor) -> Tiles:
    """Tiles that fit 227 KiB of shared memory, with fewer queries where there are few."""
    width, half = max(query.shape[3], value.shape[3]), query.element_size() == 2
    if INTERPRETED:
        return _interpreted_tiles(query)
    if width <= 64:
        tiles = Tiles(128, 128, 8, 3) if half else Tiles(64, 64, 4, 2)
    elif width <= 128:
        tiles = Tiles(128, 64, 8, 3) if half else Tiles(64, 32, 4, 2)
    else:
        tiles = Tiles(64, 64, 4, 2) if half else Tiles(32, 32, 4, 1)
    return tiles._replace(queries=min(tiles.queries, max(16, triton.next_power_of_2(query.shape[2]))))


def _interpreted_tiles(query: Tensor) -> Tiles:
    """Small tiles for short sequences, so that there are several; large ones for long sequences, for speed."""
    size = 32 if query.shape[2] <= 128 else 128
    return Tiles(size, size, 4, 1)


def _backward_tiles(query: Tensor, value: Tensor) -> Tiles:
    width, half = max(query.shape[3], value.shape[3]), query.element_size() == 2
    if INTERPRETED:
        return _interpreted_tiles(query)
    if width <= 64:
        return Tiles(64, 128, 8, 3) if half else Tiles(32, 64, 4, 2)
    if width <= 128:
        return Tiles(64, 64, 8, 2) if half else Tiles(32, 32, 4, 1)
    return Tiles(32, 32, 8, 1) if half else Tiles(16, 32, 8, 1)


def _launch(
    kernel: Any,
    programs: int,
    tensors: tuple[Any, ...],
    tiles: Tiles,
    band: tuple[int | None, int | None],
    scale: float,
) -> None:
    """Run a kernel once for each block of each head. One axis of programs, because a second would end at 65,535."""
    query, key, value, mask, *_ = tensors
    pointers = [query if tensor is None else tensor for tensor in tensors]
    strides = [stride for tensor in pointers if tensor.dim() == 4 for stride in tensor.stride()]
    left, right = band
    with _interpreter if INTERPRETED else torch.cuda.device_of(query):
        kernel[(programs,)](
            *pointers,
            *strides,
            query.shape[1],
            query.shape[1] // key.shape[1],
            query.shape[2],
            key.shape[2],
            query.shape[3],
            value.shape[3],
            scale * LOG2_E.value,
            left or 0,
            right or 0,
            EVEN=query.shape[3] == value.shape[3] == triton.next_power_of_2(query.shape[3]) >= 16,
            HAS_LEFT=left is not None,
            HAS_RIGHT=right is not None,
            MASK=0 if mask is None else 1 if mask.dtype == torch.bool else 2,
            WIDTH=max(16, triton.next_power_of_2(query.shape[3])),
            VALUE_WIDTH=max(16, triton.next_power_of_2(value.shape[3])),
            QUERIES=tiles.queries,
            KEYS=tiles.keys,
            num_warps=tiles.warps,
            num_stages=tiles.stages,
        )


@triton.jit
def _dot(left, right, sums=None):
    """The product of two tiles, in float32, added to sums if there are any."""
    if _WIDENED:
        left, right = left.to(tl.float32), right.to(tl.float32)
    return tl.dot(left, right, sums, input_precision="tf32x3")


@triton.jit
def _cells(first, row_stride, stride, LENGTH: tl.constexpr, WIDTH: tl.constexpr):
    """Offsets of rows `first` to `first + LENGTH` of a matrix."""
    rows = (first + tl.arange(0, LENGTH)).to(tl.int64)
    return rows[:, None] * row_stride + tl.arange(0, WIDTH)[None, :] * stride


@triton.jit
def _inside(first, length, width, LENGTH: tl.constexpr, WIDTH: tl.constexpr):
    return (first + tl.arange(0, LENGTH) < length)[:, None] & (tl.arange(0, WIDTH) < width)[None, :]


@triton.jit
def _load(
    pointer, row_stride, stride, first, length, width, LENGTH: tl.constexpr, WIDTH: tl.constexpr, CHECKED: tl.constexpr
):
    """Rows `first` to `first + LENGTH` of a matrix, with zeros outside of it; unchecked, all of them lie inside."""
    cells = pointer + _cells(first, row_stride, stride, LENGTH, WIDTH)
    if CHECKED:
        return tl.load(cells, mask=_inside(first, length, width, LENGTH, WIDTH), other=0.0)
    return tl.load(cells)


@triton.jit
def _store(pointer, row_stride, stride, first, length, width, tile, LENGTH: tl.constexpr, WIDTH: tl.constexpr):
    cells = pointer + _cells(first, row_stride, stride, LENGTH, WIDTH)
    tl.store(cells, tile.to(pointer.dtype.element_ty), mask=_inside(first, length, width, LENGTH, WIDTH))


@triton.jit
def _masked(
    products, rows, columns, length, keys, scale, left, right, mask, mask_row, mask_column,
    EDGE: tl.constexpr, HAS_LEFT: tl.constexpr, HAS_RIGHT: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    """Scores in base 2 from products of queries and keys, −∞ where a key is hidden; `rows` and `columns` broadcast."""
    scores = products * scale
    if MASK != 0:
        inside = (rows < length) & (columns < keys)
        cells = mask + rows.to(tl.int64) * mask_row + columns.to(tl.int64) * mask_column
        if MASK == 1:
            scores = tl.where(tl.load(cells, mask=inside, other=0) != 0, scores, float("-inf"))
        else:
            scores += tl.load(cells, mask=inside, other=float("-inf")).to(tl.float32) * LOG2_E
    if EDGE:
        visible = columns < keys
        if HAS_LEFT:
            visible = visible & (columns >= rows - left)
        if HAS_RIGHT:
            visible = visible & (columns <= rows + right)
        scores = tl.where(visible, scores, float("-inf"))
    return scores


@triton.jit
def _visible(first, last, before, after, length, HAS_BEFORE: tl.constexpr, HAS_AFTER: tl.constexpr, STEP: tl.constexpr):
    """The range of a band that meets any of `first` to `last`, and in it the whole steps that meet all of them.

    Position i meets i − before to i + after. Returns where the range starts, where the whole steps start and end, and
    where it ends; starts and the end of whole steps are multiples of STEP.
    """
    start = 0
    whole = 0
    end = length
    whole_end = length
    if HAS_BEFORE:
        start = tl.maximum(first - before, 0) // STEP * STEP
        whole = tl.cdiv(tl.maximum(last - before, 0), STEP) * STEP
    if HAS_AFTER:
        end = tl.minimum(length, last + after + 1)
        whole_end = tl.minimum(length, first + after + 1)
    whole = tl.minimum(whole, tl.cdiv(tl.maximum(end, 0), STEP) * STEP)
    whole_end = tl.maximum(whole_end // STEP * STEP, whole)
    return start, whole, whole_end, end


@triton.jit
def _forward_kernel(
    query, key, value, mask, output, log_sums,
    q_item, q_head, q_row, q_column, k_item, k_head, k_row, k_column, v_item, v_head, v_row, v_column,
    m_item, m_head, m_row, m_column, o_item, o_head, o_row, o_column,
    heads, group, length, keys, width, value_width, scale, left, right,
    EVEN: tl.constexpr, HAS_LEFT: tl.constexpr, HAS_RIGHT: tl.constexpr, MASK: tl.constexpr,
    WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """A program computes the output of QUERIES queries of one head; the last blocks, which see most keys, go first."""
    blocks = tl.cdiv(length, QUERIES)
    first = (blocks - 1 - tl.program_id(0) % blocks) * QUERIES
    pair = (tl.program_id(0) // blocks).to(tl.int64)
    item, head = pair // heads, pair % heads
    rows = first + tl.arange(0, QUERIES)
    key += item * k_item + head // group * k_head
    value += item * v_item + head // group * v_head
    mask += item * m_item + head * m_head
    queries = _load(query + item * q_item + head * q_head, q_row, q_column, first, length, width, QUERIES, WIDTH, True)
    sums = tl.zeros((QUERIES, VALUE_WIDTH), tl.float32)
    totals = tl.zeros((QUERIES,), tl.float32)
    largest = tl.full((QUERIES,), float("-inf"), tl.float32)
    start, whole, whole_end, end = _visible(
        first, tl.minimum(first + QUERIES, length) - 1, left, right, keys, HAS_LEFT, HAS_RIGHT, KEYS
    )
    for stage in tl.static_range(3):  # both edges of the band, and what every position meets between them
        if stage != 0 or HAS_LEFT:
            lower = start if stage == 0 else whole if stage == 1 else whole_end
            upper = whole if stage == 0 else whole_end if stage == 1 else end
            for begin in range(lower, upper, KEYS):  # the online softmax
                columns = (begin + tl.arange(0, KEYS))[None, :]
                k = _load(key, k_row, k_column, begin, keys, width, KEYS, WIDTH, stage != 1 or not EVEN)
                scores = _masked(
                    _dot(queries, tl.trans(k)), rows[:, None], columns, length, keys, scale, left, right,
                    mask, m_row, m_column, stage != 1, HAS_LEFT, HAS_RIGHT, MASK,
                )  # fmt: skip
                larger = tl.maximum(largest, tl.max(scores, 1))
                shift = tl.where(larger == float("-inf"), 0.0, larger)  # of a row that has seen no key yet
                weights = tl.exp2(scores - shift[:, None])
                shrink = tl.exp2(largest - shift)
                totals = totals * shrink + tl.sum(weights, 1)
                v = _load(value, v_row, v_column, begin, keys, value_width, KEYS, VALUE_WIDTH, stage != 1 or not EVEN)
                sums = _dot(weights.to(v.dtype), v, sums * shrink[:, None])
                largest = larger
    empty = totals == 0.0
    sums = sums / tl.where(empty, 1.0, totals)[:, None]
    target = output + item * o_item + head * o_head
    _store(target, o_row, o_column, first, length, value_width, sums, QUERIES, VALUE_WIDTH)
    # An empty row gets +∞, so that the backward pass finds no weight in it.
    logs = tl.where(empty, float("inf"), largest + tl.log2(tl.where(empty, 1.0, totals)))
    tl.store(log_sums + pair * length + rows, logs, mask=rows < length)


@triton.jit
def _score_gradients(weights, products, means, dtype: tl.constexpr):
    """Gradients of scores in a dtype in which they are multiplied, and the factor of each row that was taken out."""
    gradients = weights * (products - means)
    if dtype == tl.float16:
        factors = tl.max(tl.abs(gradients), 1)
        factors = tl.where(factors == 0.0, 1.0, factors)
        return (gradients / factors[:, None]).to(dtype), factors
    return gradients.to(dtype), tl.full((gradients.shape[0],), 1.0, tl.float32)


@triton.jit
def _add_product(sums, gradients, factors, operand):
    if operand.dtype == tl.float16:
        return sums + _dot(gradients, operand) * factors[:, None]
    return _dot(gradients, operand, sums)


@triton.jit
def _query_gradient_kernel(
    query, key, value, mask, output, log_sums, output_gradient, means, d_query,
    q_item, q_head, q_row, q_column, k_item, k_head, k_row, k_column, v_item, v_head, v_row, v_column,
    m_item, m_head, m_row, m_column, o_item, o_head, o_row, o_column, u_item, u_head, u_row, u_column,
    d_item, d_head, d_row, d_column,
    heads, group, length, keys, width, value_width, scale, left, right,
    EVEN: tl.constexpr, HAS_LEFT: tl.constexpr, HAS_RIGHT: tl.constexpr, MASK: tl.constexpr,
    WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """A program computes the gradient of QUERIES queries of one head, and stores their means for the other kernel."""
    blocks = tl.cdiv(length, QUERIES)
    first = (blocks - 1 - tl.program_id(0) % blocks) * QUERIES
    pair = (tl.program_id(0) // blocks).to(tl.int64)
    item, head = pair // heads, pair % heads
    rows = first + tl.arange(0, QUERIES)
    key += item * k_item + head // group * k_head
    value += item * v_item + head // group * v_head
    mask += item * m_item + head * m_head
    output += item * o_item + head * o_head
    output_gradient += item * u_item + head * u_head
    queries = _load(query + item * q_item + head * q_head, q_row, q_column, first, length, width, QUERIES, WIDTH, True)
    upstream = _load(output_gradient, u_row, u_column, first, length, value_width, QUERIES, VALUE_WIDTH, True)
    outputs = _load(output, o_row, o_column, first, length, value_width, QUERIES, VALUE_WIDTH, True)
    mean = tl.sum(outputs.to(tl.float32) * upstream.to(tl.float32), 1)
    tl.store(means + pair * length + rows, mean, mask=rows < length)
    logs = tl.load(log_sums + pair * length + rows, mask=rows < length, other=float("inf"))
    sums = tl.zeros((QUERIES, WIDTH), tl.float32)
    start, whole, whole_end, end = _visible(
        first, tl.minimum(first + QUERIES, length) - 1, left, right, keys, HAS_LEFT, HAS_RIGHT, KEYS
    )
    for stage in tl.static_range(3):  # both edges of the band, and what every position meets between them
        if stage != 0 or HAS_LEFT:
            lower = start if stage == 0 else whole if stage == 1 else whole_end
            upper = whole if stage == 0 else whole_end if stage == 1 else end
            for begin in range(lower, upper, KEYS):
                columns = (begin + tl.arange(0, KEYS))[None, :]
                k = _load(key, k_row, k_column, begin, keys, width, KEYS, WIDTH, stage != 1 or not EVEN)
                v = _load(value, v_row, v_column, begin, keys, value_width, KEYS, VALUE_WIDTH, stage != 1 or not EVEN)
                scores = _masked(
                    _dot(queries, tl.trans(k)), rows[:, None], columns, length, keys, scale, left, right,
                    mask, m_row, m_column, stage != 1, HAS_LEFT, HAS_RIGHT, MASK,
                )  # fmt: skip
                products = _dot(upstream, tl.trans(v))
                gradients, factors = _score_gradients(tl.exp2(scores - logs[:, None]), products, mean[:, None], k.dtype)
                sums = _add_product(sums, gradients, factors, k)
    target = d_query + item * d_item + head * d_head
    _store(target, d_row, d_column, first, length, width, sums * (scale / LOG2_E), QUERIES, WIDTH)


@triton.jit
def _key_gradient_kernel(
    query, key, value, mask, output, log_sums, output_gradient, means, d_key, d_value,
    q_item, q_head, q_row, q_column, k_item, k_head, k_row, k_column, v_item, v_head, v_row, v_column,
    m_item, m_head, m_row, m_column, o_item, o_head, o_row, o_column, u_item, u_head, u_row, u_column,
    dk_item, dk_head, dk_row, dk_column, dv_item, dv_head, dv_row, dv_column,
    heads, group, length, keys, width, value_width, scale, left, right,
    EVEN: tl.constexpr, HAS_LEFT: tl.constexpr, HAS_RIGHT: tl.constexpr, MASK: tl.constexpr,
    WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """A program computes the gradients of KEYS keys and values of one head, over all query heads of its group."""
    blocks = tl.cdiv(keys, KEYS)
    first = tl.program_id(0) % blocks * KEYS
    pair = (tl.program_id(0) // blocks).to(tl.int64)
    item, key_head = pair // (heads // group), pair % (heads // group)
    k = _load(key + item * k_item + key_head * k_head, k_row, k_column, first, keys, width, KEYS, WIDTH, True)
    v = _load(
        value + item * v_item + key_head * v_head, v_row, v_column, first, keys, value_width, KEYS, VALUE_WIDTH, True
    )  # fmt: skip
    columns = (first + tl.arange(0, KEYS))[:, None]
    d_keys = tl.zeros((KEYS, WIDTH), tl.float32)
    d_values = tl.zeros((KEYS, VALUE_WIDTH), tl.float32)
    # Key j is seen by queries j − right to j + left.
    start, whole, whole_end, end = _visible(
        first, tl.minimum(first + KEYS, keys) - 1, right, left, length, HAS_RIGHT, HAS_LEFT, QUERIES
    )
    if first + KEYS > keys:  # keys behind the end are hidden tile by tile
        whole_end = whole
    for member in range(group):
        head = key_head * group + member
        queries_of, upstream_of = query + item * q_item + head * q_head, output_gradient + item * u_item + head * u_head
        mask_of, row = mask + item * m_item + head * m_head, (item * heads + head) * length
        for stage in tl.static_range(3):  # both edges of the band, and what every position meets between them
            if stage != 0 or HAS_RIGHT:
                lower = start if stage == 0 else whole if stage == 1 else whole_end
                upper = whole if stage == 0 else whole_end if stage == 1 else end
                for begin in range(lower, upper, QUERIES):  # tiles are k × q
                    rows = begin + tl.arange(0, QUERIES)
                    queries = _load(
                        queries_of, q_row, q_column, begin, length, width, QUERIES, WIDTH, stage != 1 or not EVEN
                    )
                    upstream = _load(
                        upstream_of, u_row, u_column, begin, length, value_width, QUERIES, VALUE_WIDTH,
                        stage != 1 or not EVEN,
                    )  # fmt: skip
                    logs = tl.load(log_sums + row + rows, mask=rows < length, other=float("inf"))
                    mean = tl.load(means + row + rows, mask=rows < length, other=0.0)
                    scores = _masked(
                        _dot(k, tl.trans(queries)), rows[None, :], columns, length, keys, scale, left, right,
                        mask_of, m_row, m_column, stage != 1, HAS_LEFT, HAS_RIGHT, MASK,
                    )  # fmt: skip
                    weights = tl.exp2(scores - logs[None, :])
                    d_values = _dot(weights.to(upstream.dtype), upstream, d_values)
                    products = _dot(v, tl.trans(upstream))
                    gradients, factors = _score_gradients(weights, products, mean[None, :], k.dtype)
                    d_keys = _add_product(d_keys, gradients, factors, queries)
    target = d_key + item * dk_item + key_head * dk_head
    _store(target, dk_row, dk_column, first, keys, width, d_keys * (scale / LOG2_E), KEYS, WIDTH)
    target = d_value + item * dv_item + key_head * dv_head
    _store(target, dv_row, dv_column, first, keys, value_width, d_values, KEYS, VALUE_WIDTH)
