"""The page works in a real browser: it filters, draws only what is seen, and runs nothing of its data."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import msgspec
import pytest
from chromium import Chromium
from evidence_factory import make_evidence, make_generation, make_request, without_steps
from record_factory import make_record
from test_html_page import HOSTILE, hostile_evidence, hostile_record, page

from dflash_doctor.evidence import Divergence, Evidence, RequestTrace

pytestmark = pytest.mark.browser


def answer(chromium: Chromium, text: str, script: str, **options: Any) -> Any:
    """Open the page and run the body of an async function in it."""
    chromium.open(text, **options)
    return chromium.answer(script)


def page_of(evidence: Evidence) -> str:
    return page(make_record(evidence=evidence), evidence)


def parted_evidence() -> Evidence:
    """Eight requests: r000 parts by a fault, r001 at a tie, r002 loops."""
    evidence = make_evidence()
    assert evidence.speculative is not None
    requests = list(evidence.speculative.requests)
    loop = make_request("r002", "math", accepted=(7,) * 20)
    requests[2] = msgspec.structs.replace(loop, output_ids=(77,) * 120, steps=None, counters=None)
    alone = [without_steps(trace) for trace in requests]
    divergences = []
    for index, gap in ((0, 5.0), (1, 0.01)):
        ids = alone[index].output_ids
        alone[index] = msgspec.structs.replace(alone[index], output_ids=(*ids[:4], 900 + index, 901, 902))
        divergences.append(
            Divergence(
                prompt_id=alone[index].prompt_id,
                category=alone[index].category,
                index=4,
                target_id=900 + index,
                speculative_id=ids[4],
                target_logprob=-0.5,
                speculative_logprob=-0.5 - gap,
                source="accepted",
            )
        )
    return msgspec.structs.replace(
        evidence,
        speculative=make_generation(requests),
        target_only=make_generation(alone, arm="target-only"),
        divergences=tuple(divergences),
    )


def test_page_when_opened_then_draws_the_steps_of_the_worst_sample(chromium: Chromium) -> None:
    requests = [
        make_request("good", accepted=(7, 7, 7)),
        make_request("bad", accepted=(2, 0, 7)),
    ]
    evidence = make_evidence(speculative=make_generation(requests), target_only=None, divergences=None)
    shown = answer(
        chromium,
        page_of(evidence),
        """
        const chips = (row, kind) =>
          [...row.querySelectorAll(".chip." + kind)].map((node) => node.textContent);
        const steps = [...document.querySelectorAll("#detail .step")];
        return {
          title: document.querySelector("#detail h3").textContent,
          about: document.querySelector("#detail h3 + p").textContent,
          prefill: chips(steps[0], "prefill"),
          steps: steps.slice(1).map((row) => ({
            text: row.textContent,
            accepted: chips(row, "accepted"), rejected: chips(row, "rejected"),
            recovered: chips(row, "recovered"), bonus: chips(row, "bonus"),
          })),
        };
        """,
    )
    assert shown["title"] == "bad"
    assert "22" not in shown["about"]
    assert "13 output tokens after 10 of prompt · 3 steps · acceptance length 4.00" in shown["about"]
    bad = requests[1]
    assert shown["prefill"] == [f"t{bad.output_ids[0]}"]
    assert bad.steps is not None
    for step, drawn in zip(bad.steps, shown["steps"], strict=True):
        assert step.draft_ids is not None
        assert drawn["accepted"] == [f"t{token}" for token in step.draft_ids[: step.num_accepted]]
        assert drawn["rejected"] == ([] if step.rejected_id is None else [f"t{step.rejected_id}"])
        chosen = [f"t{step.chosen_id}"]
        assert (drawn["bonus"], drawn["recovered"]) == (
            (chosen, []) if step.num_accepted == 7 else ([], chosen)
        )
    first = shown["steps"][0]["text"]
    assert "2 of 7" in first
    assert "output 1, context 11" in first
    assert "refused p 8.2 %, rank 2" in first
    assert "chosen p 90 %, rank 1" in first


def test_page_when_tokens_lie_past_the_end_then_dims_them(chromium: Chromium) -> None:
    whole = make_request("r0", accepted=(3, 5))
    cut = msgspec.structs.replace(whole, output_ids=whole.output_ids[:7])
    evidence = make_evidence(speculative=make_generation([cut]), target_only=None, divergences=None)
    over = answer(
        chromium,
        page_of(evidence),
        'return [...document.querySelectorAll("#detail .step .over")].map((node) => node.textContent);',
    )
    assert whole.steps is not None
    step = whole.steps[1]
    assert step.draft_ids is not None
    # Prefill, four tokens of the first step and two of the second are the text.
    expected = [*step.draft_ids[2:5], step.draft_ids[5], step.chosen_id]
    assert over == [f"t{token}" for token in expected]


def test_page_when_there_are_ten_thousand_samples_then_draws_only_what_is_seen(chromium: Chromium) -> None:
    requests = [make_request(f"r{i:05d}", accepted=(3, 0, 7)) for i in range(10_000)]
    evidence = make_evidence(
        speculative=make_generation(requests), speculative_timing=None, target_only=None, divergences=None
    )
    seen = answer(
        chromium,
        page_of(evidence),
        """
        await choose("order", "run");
        const counts = [], list = document.getElementById("list");
        for (let part = 0; part <= 10; part++) {
          list.scrollTop = (list.scrollHeight - list.clientHeight) * part / 10;
          await frame();
          counts.push(rows().length);
        }
        const last = rows().at(-1);
        await type("search", "r07777");
        return { counts, last, found: rows(), count: document.getElementById("count").textContent };
        """,
    )
    assert max(seen["counts"]) < 60
    assert min(seen["counts"]) > 10
    assert seen["last"] == "r09999"
    assert seen["found"] == ["r07777"]
    assert seen["count"] == "1 of 10,000"


def test_page_when_a_sample_has_thousands_of_steps_then_draws_them_as_one_scrolls(chromium: Chromium) -> None:
    evidence = make_evidence(
        speculative=make_generation([make_request("long", accepted=(1, 0) * 1500)]),
        target_only=None,
        divergences=None,
    )
    seen = answer(
        chromium,
        page_of(evidence),
        """
        document.getElementById("samples").scrollIntoView();
        const count = () => document.querySelectorAll("#detail .step").length;
        const detail = document.getElementById("detail"), at_first = count();
        detail.scrollTop = detail.scrollHeight;
        await until(() => count() > at_first);
        const after = count();
        const strip = document.querySelector(".strip"), box = strip.getBoundingClientRect();
        strip.dispatchEvent(new MouseEvent("click", { clientX: box.right - 0.01, bubbles: true }));
        await frame();
        return { at_first, after, end: count(), found: document.querySelector(".found").dataset.step };
        """,
    )
    assert seen["at_first"] < 300
    assert seen["at_first"] < seen["after"] < seen["end"]
    # A click is good to one pixel, which is a few steps here.
    assert 2980 < int(seen["found"]) < seen["end"]


def test_page_when_filtered_then_lists_what_fits(chromium: Chromium) -> None:
    evidence = parted_evidence()
    assert evidence.speculative is not None
    seen = answer(
        chromium,
        page_of(evidence),
        """
        const lists = {};
        await choose("order", "run");
        lists.all = rows();
        for (const only of ["divergent", "fault", "void"]) {
          await choose("only", only);
          lists[only] = rows();
        }
        await choose("only", "");
        const options = [...document.getElementById("category").options];
        await choose("category", options.find((node) => node.textContent === "code").value);
        lists.code = rows();
        await choose("category", "");
        for (const order of ["worst", "best", "steps"]) {
          await choose("order", order);
          lists[order] = rows();
        }
        await type("search", "no such text");
        lists.none = rows();
        lists.message = document.getElementById("detail").textContent;
        return lists;
        """,
    )
    names = [f"r{index:03d}" for index in range(8)]
    assert seen["all"] == names
    assert seen["divergent"] == ["r000", "r001"]
    assert seen["fault"] == ["r000"]
    assert seen["void"] == ["r002"]
    assert seen["code"] == names[1::2]
    lengths = {
        trace.prompt_id: 1 + sum(step.num_accepted for step in trace.steps) / len(trace.steps)
        for trace in evidence.speculative.requests
        if trace.steps
    }
    # The sample without steps has no data: it is last in either order.
    assert seen["worst"] == [*sorted(lengths, key=lambda name: (lengths[name], name)), "r002"]
    assert seen["best"] == [*sorted(lengths, key=lambda name: (-lengths[name], name)), "r002"]
    assert seen["steps"][-1] == "r002"
    assert seen["none"] == []
    assert seen["message"] == "No sample fits the filters."


def test_page_when_searched_then_finds_text_across_tokens(chromium: Chromium) -> None:
    evidence = make_evidence()
    assert evidence.speculative is not None
    wanted = evidence.speculative.requests[5]
    text = "".join(f"t{token}" for token in wanted.output_ids[3:7])
    found = answer(chromium, page_of(evidence), f'await type("search", "{text.upper()}"); return rows();')
    assert found == [wanted.prompt_id]


def test_page_when_a_sample_diverges_then_shows_both_continuations(chromium: Chromium) -> None:
    evidence = parted_evidence()
    seen = answer(
        chromium,
        page_of(evidence),
        """
        await choose("only", "fault");
        const box = document.querySelector(".parting");
        const sides = [...box.querySelectorAll(".side")].map((node) => node.textContent);
        await click(box.querySelector("button"));
        const found = document.querySelector("#detail .found");
        return { text: box.textContent, sides, parted: found.querySelector(".parted").textContent };
        """,
    )
    assert "Parts from the target alone at output token 4 (context 14). The target clearly" in seen["text"]
    assert evidence.speculative is not None
    spoken = evidence.speculative.requests[0].output_ids
    common = "".join(f"t{token}" for token in spoken[:4])
    alone, with_drafts = seen["sides"]
    assert alone == f"target alone, p 61 %{common}t900t901t902 end of text"
    assert with_drafts.startswith(f"speculation (accepted), p 0.41 %{common}t{spoken[4]}t{spoken[5]}")
    assert with_drafts.endswith(f"t{spoken[27]} …")
    assert seen["parted"] == f"t{spoken[4]}"


def test_page_when_a_rejected_pair_is_asked_for_then_lists_the_samples_with_it(chromium: Chromium) -> None:
    evidence = make_evidence()
    assert evidence.speculative is not None
    seen = answer(
        chromium,
        page_of(evidence),
        """
        const button = document.querySelector("button[data-drafted]");
        await click(button);
        const found = document.querySelector("#detail .found");
        const answer = {
          pair: [Number(button.dataset.drafted), Number(button.dataset.chosen)], names: rows(),
          chips: [...found.querySelectorAll(".rejected, .recovered")].map((node) => node.textContent),
        };
        await click(document.getElementById("pair"));
        answer.after = rows().length;
        return answer;
        """,
    )
    drafted, chosen = seen["pair"]
    expected = {
        trace.prompt_id
        for trace in evidence.speculative.requests
        if any((step.rejected_id, step.chosen_id) == (drafted, chosen) for step in trace.steps or ())
    }
    assert expected
    assert set(seen["names"]) == expected
    assert seen["chips"] == [f"t{drafted}", f"t{chosen}"]
    assert seen["after"] == 8


def test_page_when_used_by_keyboard_then_moves_through_the_samples(chromium: Chromium) -> None:
    seen = answer(
        chromium,
        page_of(make_evidence(num_requests=30)),
        """
        await choose("order", "run");
        const list = document.getElementById("list"), titles = [];
        for (const key of ["ArrowDown", "ArrowDown", "ArrowUp", "End", "Home"]) {
          list.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
          await frame();
          titles.push(document.querySelector("#detail h3").textContent);
        }
        const active = document.getElementById(list.getAttribute("aria-activedescendant"));
        return { titles, selected: active.getAttribute("aria-selected"), address: location.hash };
        """,
    )
    assert seen["titles"] == ["r001", "r002", "r001", "r029", "r000"]
    assert seen["selected"] == "true"
    assert seen["address"] == "#sample=r000"


def test_page_when_the_address_names_a_sample_then_opens_on_it(chromium: Chromium) -> None:
    title = answer(
        chromium,
        page_of(make_evidence(num_requests=30)),
        'return document.querySelector("#detail h3").textContent;',
        fragment="#sample=r017",
    )
    assert title == "r017"


def request_at_step_level() -> tuple[RequestTrace, list[Any]]:
    trace = make_request("r0", accepted=(2, 0, 7), with_ids=False)
    return trace, ["t" + str(token) for token in trace.output_ids]


def test_page_when_a_finding_names_a_sample_then_its_link_opens_it(chromium: Chromium) -> None:
    title = answer(
        chromium,
        page(hostile_record(hostile_evidence()), hostile_evidence()),
        """
        await choose("only", "void");
        await click(document.querySelector("#lossless a[href^='#sample=']"));
        await until(() => document.querySelector("#detail h3"));
        return document.querySelector("#detail h3").textContent;
        """,
    )
    assert title.startswith("<img src=x")
    assert title.endswith("<U+202E><U+0000><U+D800>'\"&0")


def test_page_when_draft_ids_are_not_known_then_still_shows_what_steps_emitted(chromium: Chromium) -> None:
    trace, texts = request_at_step_level()
    evidence = make_evidence(speculative=make_generation([trace]), target_only=None, divergences=None)
    seen = answer(
        chromium,
        page_of(evidence),
        """
        const found = {}, steps = document.querySelector("#detail .tokens");
        for (const kind of ["accepted", "recovered", "bonus", "rejected"])
          found[kind] = [...steps.querySelectorAll("." + kind)].map((node) => node.textContent);
        return found;
        """,
    )
    assert seen == {
        "accepted": [*texts[1:3], *texts[5:12]],
        "recovered": [texts[3], texts[4]],
        "bonus": [texts[12]],
        "rejected": [],
    }


def test_page_when_a_step_does_not_continue_the_one_before_then_says_where_it_is(chromium: Chromium) -> None:
    trace = make_request("r0", accepted=(2, 0, 7))
    assert trace.steps is not None
    moved = msgspec.structs.replace(trace.steps[1], position=21)
    after = msgspec.structs.replace(trace.steps[2], position=22)
    trace = msgspec.structs.replace(trace, steps=(trace.steps[0], moved, after))
    evidence = make_evidence(speculative=make_generation([trace]), target_only=None, divergences=None)
    places = answer(
        chromium,
        page_of(evidence),
        "return [...document.querySelectorAll('#detail .no > :last-child')].map((node) => node.textContent);",
    )
    assert places == [
        "output 0, context 10",
        "output 1, context 11",
        "output 11, context 21",
        "output 12, context 22",
    ]


def test_page_when_there_are_no_steps_then_shows_the_text_and_the_engines_counts(chromium: Chromium) -> None:
    trace = make_request("r0", accepted=(2, 0, 7), steps=None)
    evidence = make_evidence(speculative=make_generation([trace]), target_only=None, divergences=None)
    seen = answer(
        chromium,
        page_of(evidence),
        """
        return {
          about: document.querySelector("#detail h3 + p").textContent,
          text: document.querySelector("#detail .tokens").textContent,
        };
        """,
    )
    assert "3 steps · acceptance length 4.00" in seen["about"]
    assert seen["text"] == "".join(f"t{token}" for token in trace.output_ids)


def test_page_when_shown_as_text_then_every_token_says_what_became_of_it(chromium: Chromium) -> None:
    trace = make_request("r0", accepted=(2, 0, 7))
    evidence = make_evidence(speculative=make_generation([trace]), target_only=None, divergences=None)
    seen = answer(
        chromium,
        page_of(evidence),
        """
        const [text, tails] = document.querySelectorAll(".tools button");
        await click(text);
        const shown = [...document.querySelectorAll(".flow .chip")];
        const before = shown.length;
        await click([...document.querySelectorAll(".tools button")][1]);
        return {
          before, after: document.querySelectorAll(".flow .chip").length,
          title: shown.find((node) => node.classList.contains("rejected")).title,
        };
        """,
    )
    assert seen["before"] == 13 + 2
    assert seen["after"] == 13 + 2 + 4 + 6
    assert seen["title"] == (
        "Step 1: refused draft token, draft position 2. The target gives it p 8.2 %, rank 2."
    )


def test_page_when_the_theme_is_switched_then_colours_change(chromium: Chromium) -> None:
    colours = answer(
        chromium,
        page_of(make_evidence()),
        """
        const paper = () => getComputedStyle(document.body).backgroundColor;
        const found = [paper()];
        for (let turn = 0; turn < 2; turn++) {
          await click(document.getElementById("theme"));
          found.push(paper());
        }
        return found;
        """,
    )
    assert colours[0] == colours[2] != colours[1]


def test_page_when_scripts_are_off_then_the_summary_is_there(chromium: Chromium) -> None:
    chromium.open(page_of(make_evidence()), scripts=False)
    dom = chromium.dom()
    assert "The sample browser needs JavaScript" in dom
    assert "Where drafts break" in dom
    assert 'id="samples-app" hidden=""' in dom
    assert 'id="theme" class="no-print" type="button" hidden=""' in dom


def test_page_when_the_browser_cannot_unpack_then_says_so(chromium: Chromium) -> None:
    text = page_of(make_evidence())
    without = text.replace("'use strict';", "'use strict'; const DecompressionStream = undefined;", 1)
    chromium.open(_with_own_policy(text, without))
    dom = chromium.dom()
    assert "This browser cannot unpack the samples" in dom
    assert 'id="samples-app" hidden=""' in dom


def test_page_when_the_data_is_damaged_then_says_so(chromium: Chromium) -> None:
    text = page_of(make_evidence())
    place = text.index('id="samples-data">') + len('id="samples-data">') + 40
    chromium.open(text[:place] + "AAAA" + text[place + 4 :])
    assert chromium.answer("return state.textContent;").startswith("The samples cannot be read")


def test_page_when_data_is_hostile_then_no_script_of_it_runs(chromium: Chromium) -> None:
    evidence = hostile_evidence()
    seen = answer(
        chromium,
        page(hostile_record(evidence), evidence),
        """
        const shown = document.body.innerText;
        return {
          images: document.querySelectorAll("img").length, scripts: document.scripts.length,
          count: document.getElementById("count").textContent,
          title: document.querySelector("#detail h3").textContent,
          raw: /[\\u202e\\u0000]/.test(shown), parting: document.querySelector(".parting") !== null,
        };
        """,
    )
    # The data is taken out when it is read; the page's own script stays.
    assert (seen["images"], seen["scripts"]) == (0, 1)
    assert seen["count"] == "4 of 4"
    assert seen["title"].startswith("<img src=x onerror=alert(1)></script>")
    assert not seen["raw"]
    assert seen["parting"] is not None


@pytest.mark.parametrize("width", [390, 1280])
def test_page_when_words_never_end_then_keeps_its_width(chromium: Chromium, width: int) -> None:
    word = "w" * 3000
    requests = [make_request(f"{word}{i}", word + str(i), accepted=(3, 0, 7)) for i in range(3)]
    evidence = make_evidence(
        speculative=make_generation(requests),
        token_texts=dict.fromkeys(range(1000), HOSTILE + word),
        target_only=None,
        divergences=None,
    )
    changes = {"summary": word, "incomplete": word, "settings": {word: word}, "environment": {word: word}}
    text = page(make_record(evidence=evidence, changes=changes), evidence)
    seen = answer(
        chromium,
        text,
        """
        for (const node of document.querySelectorAll("details")) node.open = true;
        await frame();
        return { page: document.documentElement.scrollWidth, window: innerWidth };
        """,
        width=width,
    )
    assert seen["page"] <= seen["window"]


def test_page_when_a_script_is_injected_then_the_policy_stops_it(chromium: Chromium) -> None:
    text = page_of(make_evidence())
    injected = text.replace("</main>", "<script>document.title='hit'</script></main>")
    chromium.open(injected)
    assert "<title>hit</title>" not in chromium.dom()
    # The attack is a real one: without the policy it succeeds.
    chromium.open(injected.replace("Content-Security-Policy", "x", 1))
    assert "<title>hit</title>" in chromium.dom()


def test_page_when_markup_is_made_from_a_string_then_the_policy_stops_it(chromium: Chromium) -> None:
    reason = answer(
        chromium,
        page_of(make_evidence()),
        """
        try { document.body.innerHTML = "<b>x</b>"; return "made"; }
        catch (error) { return error.name + ": " + error.message; }
        """,
    )
    assert reason.startswith("TypeError")
    assert "TrustedHTML" in reason
    way_around = chromium.answer(
        """
        try { trustedTypes.createPolicy("default", { createHTML: (text) => text }); return "made"; }
        catch (error) { return error.name; }
        """
    )
    assert way_around == "TypeError"


def test_page_when_printed_then_unfolds_what_is_folded_and_leaves_out_the_browser(chromium: Chromium) -> None:
    chromium.open(page_of(make_evidence()))
    folded = "return [...document.querySelectorAll('details')].filter((node) => !node.open).length;"
    before = chromium.answer(folded)
    assert before > 3
    assert chromium.pdf().startswith(b"%PDF")
    assert chromium.answer(folded) == before
    chromium.ask("Emulation.setEmulatedMedia", media="print")
    seen = chromium.answer(
        """
        dispatchEvent(new Event("beforeprint"));
        await frame();
        const hidden = [...document.querySelectorAll(".no-print")].every((node) => !node.offsetParent);
        return { hidden, folded: document.querySelectorAll("details:not([open])").length };
        """
    )
    chromium.ask("Emulation.setEmulatedMedia", media="")
    assert seen == {"hidden": True, "folded": 0}


def _with_own_policy(text: str, changed: str) -> str:
    """The changed page, its script allowed by a policy that fits it."""
    script = re.findall(r"<script>(.*?)</script>", changed, re.DOTALL)[-1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert changed != text
    return changed.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
