"""The reference in its child process loads a pair, drafts along texts, and says what does not fit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the reference needs torch")
pytest.importorskip("transformers", reason="the reference needs transformers")

from dflash_doctor.bundled import bundled_fixtures  # noqa: E402
from dflash_doctor.errors import DoctorError, UsageError  # noqa: E402
from dflash_doctor.reference.client import HostedReference  # noqa: E402
from dflash_doctor.reference.knobs import Knobs  # noqa: E402
from dflash_doctor.reference.messages import EngineStep, ReferenceOptions, Text  # noqa: E402
from dflash_doctor.reference.states import StateStore  # noqa: E402

PAIR = bundled_fixtures() / "tiny_pair"


def start(folder: Path, *, draft: Path | None = None, **options: Any) -> HostedReference:
    return HostedReference.start(
        ReferenceOptions(
            target=str(options.pop("target", PAIR / "target")),
            draft=str(draft or PAIR / "draft"),
            reader="vllm",
            num_threads=1,
            **options,
        ),
        log_path=str(folder / "reference.log"),
        start_timeout_s=300,
    )


@pytest.fixture(scope="module")
def texts() -> tuple[Text, ...]:
    """Three prompts with the target's own answers."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from dflash_doctor.tinypair.target import complete
    from dflash_doctor.workloads.prompts import load_prompts

    tokenizer = AutoTokenizer.from_pretrained(PAIR / "target")
    target = AutoModelForCausalLM.from_pretrained(PAIR / "target", dtype=torch.float32).eval()
    prompts = [
        tokenizer.apply_chat_template(
            list(prompt.messages or ()), add_generation_prompt=True, enable_thinking=False, return_dict=False
        )
        for prompt in load_prompts(PAIR / "prompts.jsonl").prompts[:120:40]
    ]
    answers = complete(target, prompts, end_id=2, max_tokens=64)
    return tuple(
        Text(token_ids=tuple(prompt + answer), num_prompt_tokens=len(prompt))
        for prompt, answer in zip(prompts, answers, strict=True)
    )


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory, texts: tuple[Text, ...]) -> Iterator[HostedReference]:
    with start(tmp_path_factory.mktemp("reference")) as found:
        reads = found.read_texts(texts, range(6))
        assert all(read.target_equal == read.num_answer_tokens for read in reads)
        assert not any(read.num_non_finite for read in reads)
        yield found


def test_reference_when_started_then_says_what_was_loaded(reference: HostedReference) -> None:
    facts = reference.facts
    assert (facts.device, facts.dtype, facts.num_draft_tokens, facts.taps) == ("cpu", "float32", 7, (1, 3, 4))
    assert (facts.num_target_layers, facts.num_layers, facts.vocab_rows) == (6, 2, 1024)
    assert not (facts.missing_tensors)
    assert not (facts.ignored_tensors)
    assert not (facts.zero_tensors)
    assert not (facts.has_own_head)
    assert not (facts.has_own_embedding)


def test_measure_when_nothing_is_changed_then_steps_cover_each_text(
    reference: HostedReference, texts: tuple[Text, ...]
) -> None:
    for text, measured in zip(texts, reference.measure(Knobs(), range(3)), strict=True):
        answer = len(text.token_ids) - text.num_prompt_tokens
        assert len(measured.accepted) == answer - 1
        assert answer - 1 <= sum(measured.steps) + len(measured.steps) <= answer
        assert max(measured.accepted) <= 7


@pytest.mark.parametrize(
    "knobs",
    [
        Knobs(taps=(2, 4, 5)),
        Knobs(mask_token_id=2),
        Knobs(rope_theta=1e6),
        Knobs(neox=False),
        Knobs(partial_rotary_factor=0.5),
        Knobs(query_shift=1),
        Knobs(context_lag=1),
        Knobs(erased_first=32),
        Knobs(context_shuffled=True),
        Knobs(layer_order=(1, 0)),
        Knobs(unset_tensors=("fc.weight",)),
        Knobs(max_length=40),
        Knobs(window=4),
    ],
    ids=lambda knobs: next(iter(knobs.changes())),
)
def test_measure_when_a_knob_is_turned_away_from_its_training_then_takes_more_steps(
    knobs: Knobs, reference: HostedReference
) -> None:
    plain, turned = (
        sum(len(item.steps) for item in reference.measure(given, range(3))) for given in (Knobs(), knobs)
    )
    assert turned > plain


def test_measure_when_drafts_of_an_engine_are_known_then_counts_equal_ones(
    texts: tuple[Text, ...], tmp_path: Path
) -> None:
    """Steps made from the reference's own drafts are all equal; a changed knob makes some differ."""
    import msgspec

    text = texts[0]
    own = text.token_ids[text.num_prompt_tokens + 1 : text.num_prompt_tokens + 8]
    with_step = msgspec.structs.replace(text, engine_steps=(EngineStep(text.num_prompt_tokens, own),))
    with start(tmp_path) as reference:
        reference.read_texts([with_step], (1, 3, 4))
        [whole] = reference.measure(Knobs(), [0])
        [alone] = reference.measure(Knobs(), [0], engine_only=True)
        assert (whole.engine_equal, whole.engine_compared) == (alone.engine_equal, alone.engine_compared)
        assert whole.engine_compared == 7
        assert whole.engine_equal >= whole.accepted[0]
        assert alone.steps == ()


def test_profile_when_taken_then_agrees_with_what_was_measured(
    reference: HostedReference, texts: tuple[Text, ...]
) -> None:
    profile = reference.profile(range(3))
    first = sum(
        item.accepted[place] > 0
        for item in reference.measure(Knobs(), range(3))
        for place in range(len(item.accepted))
    )
    assert profile.num_equal[0] == first
    assert profile.num_anchors[0] == sum(len(text.token_ids) - text.num_prompt_tokens - 1 for text in texts)
    assert list(profile.num_anchors) == sorted(profile.num_anchors, reverse=True)
    assert all(rank >= 1 for rank in profile.mean_rank)
    assert all(value <= 0 for value in profile.mean_logprob)
    assert profile.num_non_finite == 0


def test_measure_when_a_knob_does_not_fit_then_says_so_and_goes_on(reference: HostedReference) -> None:
    with pytest.raises(UsageError, match="2 taps for a projection of 3"):
        reference.measure(Knobs(taps=(1, 2)), range(1))
    with pytest.raises(UsageError, match=r"no tensor absent\.weight"):
        reference.measure(Knobs(unset_tensors=("absent.weight",)), range(1))
    assert reference.measure(Knobs(), range(1))


def copied(folder: Path, edit: Any) -> Path:
    draft = folder / "draft"
    shutil.copytree(PAIR / "draft", draft)
    from safetensors.torch import load_file, save_file

    tensors = load_file(draft / "model.safetensors")
    config = json.loads((draft / "config.json").read_text())
    edit(tensors, config)
    save_file(tensors, draft / "model.safetensors")
    (draft / "config.json").write_text(json.dumps(config))
    return draft


def test_reference_when_tensors_are_missing_or_zero_then_names_them(tmp_path: Path) -> None:
    def edit(tensors: dict[str, Any], _config: dict[str, Any]) -> None:
        tensors.pop("layers.0.self_attn.q_norm.weight")
        tensors["fc.weight"].zero_()

    with start(tmp_path, draft=copied(tmp_path, edit)) as reference:
        assert reference.facts.missing_tensors == ("layers.0.self_attn.q_norm.weight",)
        assert reference.facts.zero_tensors == ("fc.weight",)


def test_reference_when_a_tensor_is_misshapen_then_names_it(tmp_path: Path) -> None:
    def edit(tensors: dict[str, Any], _config: dict[str, Any]) -> None:
        tensors["fc.weight"] = tensors["fc.weight"][:, :256].contiguous()

    with pytest.raises(UsageError, match=r"fc\.weight is \[128, 256\], the config says \[128, 384\]"):
        start(tmp_path, draft=copied(tmp_path, edit))


def test_reference_when_the_target_cannot_be_loaded_then_says_so(tmp_path: Path) -> None:
    broken = tmp_path / "target"
    shutil.copytree(PAIR / "target", broken)
    whole = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(whole[:1000])
    with pytest.raises(DoctorError):
        start(tmp_path, target=broken)


def test_reference_when_the_drafter_has_own_tables_then_tells_copies_from_others(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    target = load_file(PAIR / "target" / "model.safetensors")

    def edit(tensors: dict[str, Any], _config: dict[str, Any]) -> None:
        tensors["lm_head.weight"] = target["lm_head.weight"].clone()
        tensors["embed_tokens.weight"] = target["model.embed_tokens.weight"].clone() * 2

    with start(tmp_path, draft=copied(tmp_path, edit)) as reference:
        assert not reference.facts.has_own_head
        assert reference.facts.has_own_embedding


def test_state_store_when_the_limit_is_passed_then_the_rest_lies_on_disk_and_reads_the_same() -> None:
    store = StateStore(limit_bytes=4 * 10 * 8)
    states = [{0: torch.randn(10, 8), 3: torch.randn(10, 8)} for _ in range(3)]
    for number, item in enumerate(states):
        store.put(number, item)
    assert store.num_spilled == 3
    for number, item in enumerate(states):
        found = store.get(number, (3, 0), torch.device("cpu"))
        assert list(found) == [3, 0]
        assert torch.equal(found[3], item[3])
    store.close()
