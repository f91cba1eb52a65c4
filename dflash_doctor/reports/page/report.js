"use strict";
/* The sample browser. Data is untrusted: it reaches the page through textContent only. */
(function () {
  const $ = (id) => document.getElementById(id);
  const theme = $("theme");
  theme.hidden = false;
  theme.addEventListener("click", function () {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  const packed = $("samples-data");
  if (!packed) return;
  const say = (text) => { $("samples-state").textContent = text; };
  if (typeof DecompressionStream === "undefined") {
    say("This browser cannot unpack the samples (it has no DecompressionStream). They are in traces.jsonl beside this page.");
    return;
  }
  const bytes = Uint8Array.from(atob(packed.textContent.trim()), (c) => c.charCodeAt(0));
  new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json().then(start, function (error) {
    say("The samples cannot be read: " + error);
  });

  const ROW = 34;
  let data, shown = [], selected = -1;

  function make(tag, className, text) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }
  const textOf = (id) => (id in data.texts ? data.texts[id] : "<" + id + ">");
  const rate = (sample) => (sample.steps.length ? 1 + sample.accepted / sample.steps.length : NaN);

  function start(loaded) {
    data = loaded;
    data.samples.forEach(function (sample) {
      sample.accepted = sample.steps.reduce((sum, step) => sum + step[1], 0);
    });
    const categories = [...new Set(data.samples.map((sample) => sample.category))];
    for (const name of categories) {
      const option = make("option", "", name);
      option.value = name;
      $("category").append(option);
    }
    for (const id of ["category", "order", "only"]) $(id).addEventListener("change", refresh);
    $("search").addEventListener("input", refresh);
    $("tails").addEventListener("change", () => $("detail").classList.toggle("show-tails", $("tails").checked));
    const list = $("list");
    list.addEventListener("scroll", draw, { passive: true });
    addEventListener("resize", draw);
    list.addEventListener("click", function (event) {
      const row = event.target.closest(".row");
      if (row) select(Number(row.dataset.index));
    });
    list.addEventListener("keydown", function (event) {
      const page = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
      const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
      if (!(event.key in moves)) return;
      event.preventDefault();
      select(Math.min(shown.length - 1, Math.max(0, selected + moves[event.key])));
    });
    $("samples-app").hidden = false;
    say("");
    refresh();
  }

  function textMatches(sample, wanted) {
    if (!wanted) return true;
    if (sample.id.toLowerCase().includes(wanted)) return true;
    if (sample.text === undefined) sample.text = sample.output.map(textOf).join("").toLowerCase();
    return sample.text.includes(wanted);
  }

  function refresh() {
    const category = $("category").value, only = $("only").value, wanted = $("search").value.toLowerCase();
    shown = data.samples.filter((sample) =>
      (!category || sample.category === category) &&
      (only !== "divergent" || sample.divergence) &&
      (only !== "void" || sample.void) &&
      textMatches(sample, wanted));
    const order = $("order").value;
    if (order === "worst") shown.sort((a, b) => (rate(a) || Infinity) - (rate(b) || Infinity));
    if (order === "best") shown.sort((a, b) => (rate(b) || 0) - (rate(a) || 0));
    if (order === "steps") shown.sort((a, b) => b.steps.length - a.steps.length);
    $("count").textContent = shown.length.toLocaleString("en") + " of " + data.samples.length.toLocaleString("en");
    $("spacer").style.height = shown.length * ROW + "px";
    $("list").scrollTop = 0;
    select(shown.length ? 0 : -1);
  }

  function draw() {
    const list = $("list"), rows = $("rows");
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(shown.length, first + Math.ceil(list.clientHeight / ROW) + 8);
    rows.replaceChildren();
    for (let index = first; index < last; index++) {
      const sample = shown[index], row = make("div", "row");
      row.id = "row-" + index;
      row.dataset.index = index;
      row.style.top = index * ROW + "px";
      row.setAttribute("role", "option");
      row.setAttribute("aria-selected", String(index === selected));
      row.append(make("span", "id mono", sample.id));
      if (sample.divergence) row.append(make("span", "badge " + (sample.divergence.kind === "tie" ? "info" : "error"), sample.divergence.kind));
      if (sample.void) row.append(make("span", "badge warning", "void"));
      const value = rate(sample);
      row.append(make("span", "soft", isNaN(value) ? "no data" : value.toFixed(2)));
      rows.append(row);
    }
  }

  function select(index) {
    selected = index;
    const list = $("list");
    if (index >= 0) {
      if (index * ROW < list.scrollTop) list.scrollTop = index * ROW;
      if ((index + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (index + 1) * ROW - list.clientHeight;
      list.setAttribute("aria-activedescendant", "row-" + index);
    } else list.removeAttribute("aria-activedescendant");
    draw();
    const detail = $("detail");
    detail.replaceChildren();
    if (index < 0) detail.append(make("p", "soft", "No sample fits the filters."));
    else show(detail, shown[index]);
    detail.scrollTop = 0;
  }

  const probability = (lnp) => (lnp === null ? "probability unknown" : "p " + Math.exp(lnp).toPrecision(2) + " (ln p " + lnp.toFixed(2) + ")");
  const place = (value) => (value === null ? "rank unknown" : "rank " + value);

  function token(id, className, title, over) {
    const node = make("span", "token " + className + (over ? " over" : ""), textOf(id));
    node.title = title + (over ? " Past the end of the text." : "");
    return node;
  }

  function show(detail, sample) {
    const value = rate(sample);
    detail.append(make("h3", "mono", sample.id));
    detail.append(make("p", "soft", sample.category + " · " + sample.output.length + " output tokens · " +
      (sample.steps.length ? sample.steps.length + " steps · " + value.toFixed(2) + " tokens per step" : "no per-step data") +
      " · ended by " + (sample.finish || "unknown")));
    if (sample.void) detail.append(make("p", "note", "Void: " + sample.void + "."));
    if (sample.divergence) detail.append(divergence(sample.divergence));
    const tokens = make("div", "tokens");
    const cut = sample.promptLength - sample.prompt.length;
    tokens.append(make("span", "prompt", (cut > 0 ? "… " : "") + sample.prompt.map(textOf).join("")));
    const end = sample.promptLength + sample.output.length;
    let at = sample.promptLength;
    const parted = sample.divergence ? sample.promptLength + sample.divergence.index : NaN;
    const add = (node, position) => { if (position === parted) node.classList.add("parted"); tokens.append(node); };
    if (!sample.steps.length) {
      sample.output.forEach((id, index) => add(token(id, "", "Output token " + index + ".", false), at + index));
    } else {
      if (sample.output.length) add(token(sample.output[0], "", "The token of prefill; it belongs to no step.", false), at);
      at += 1;
      sample.steps.forEach(function (step, number) { at = showStep(add, step, number, at, end); });
    }
    detail.append(tokens);
  }

  /* step: [position, accepted, drafted, chosen, rejected ln p, rejected rank, chosen ln p, ...draft ids] */
  function showStep(add, step, number, at, end) {
    const [position, accepted, drafted, chosen, lnp, rank, chosenLnp] = step, drafts = step.slice(7);
    let next = position === null ? at : position;
    if (!drafts.length) {
      const plain = make("span", "soft", " [step " + (number + 1) + ": " + accepted + " of " + drafted + "] ");
      add(plain, -1);
      return next + accepted + 1;
    }
    for (let index = 0; index < accepted; index++, next++)
      add(token(drafts[index], "accepted", "Accepted draft token, position " + index + " of step " + (number + 1) + ", token " + next + ".", next >= end), next);
    if (accepted < drafted) {
      add(token(drafts[accepted], "rejected", "Rejected draft token at position " + accepted + ": the target gives it " + probability(lnp) + ", " + place(rank) + ".", next >= end), -1);
      for (let index = accepted + 1; index < drafted; index++)
        add(token(drafts[index], "tail", "Draft token behind the rejected one; never judged.", false), -1);
    }
    add(token(chosen, accepted < drafted ? "recovered" : "bonus", (accepted < drafted ? "The target's own choice instead: " : "Bonus token, all drafts were accepted: ") + probability(chosenLnp) + ".", next >= end), next);
    const mark = make("sup", "step-mark", accepted + "/" + drafted);
    mark.title = "Step " + (number + 1) + ": " + accepted + " of " + drafted + " draft tokens accepted, from token " + (position === null ? at : position) + " on.";
    add(mark, -1);
    return next + 1;
  }

  function divergence(item) {
    const side = (id, lnp) => (id === null ? "end of text" : "“" + textOf(id) + "”") + (lnp === null ? "" : " (" + probability(lnp) + ")");
    return make("p", "note", "Parts from target-only at output token " + item.index + ": the target alone says " + side(item.target, item.targetLnp) +
      ", with speculation " + side(item.speculative, item.speculativeLnp) + ", which was " + item.source + ". " +
      (item.kind === "tie" ? "A numerical tie: no fault." : item.kind === "fault" ? "The target clearly prefers one: a fault." : "The target's scores there are not known."));
  }
})();
