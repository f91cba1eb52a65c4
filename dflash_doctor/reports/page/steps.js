/* Draws one sample: what the target refused, what it chose instead, and where the text parts. */

const STEPS_AT_ONCE = 120;
const WIDEST_COLUMN = 36;
const CONTEXT_TOKENS = 10;
const CONTINUATION_TOKENS = 24;

function percent(logprob) {
  const share = 100 * Math.exp(logprob);
  if (share < 0.001) return "p < 0.001 %";
  return "p " + (share >= 10 ? share.toFixed(0) : share.toPrecision(2)) + " %";
}

function thinks(logprob, rank) {
  const parts = [];
  if (logprob !== null) parts.push(percent(logprob));
  if (rank !== null) parts.push("rank " + rank.toLocaleString("en"));
  return parts.length ? parts.join(", ") : "no data";
}

/* A token; one that is nothing but spaces shows a sign for them. */
function chip(table, token, className, title, isFlow) {
  const text = table.textOf(token);
  const isBlank = text && !text.trim() && !isFlow;
  const node = make("span", "chip " + className, isBlank ? "␣".repeat(text.length) : text);
  node.title = title;
  return node;
}

/* A step's tokens in order, each with its place in prompt + output and what became of it. */
function tokensOf(table, sample, step, place, output) {
  const found = [];
  const start = table.columns.prompt_length[sample];
  const end = start + table.columns.output_length[sample];
  const isRefused = step.accepted < step.drafted;
  const last = isRefused ? "recovered" : "bonus";
  if (!step.drafts.length) {
    for (let index = 0; index <= step.accepted; index++) {
      const at = place + index;
      if (at < end)
        found.push({ token: output[at - start], at, kind: index < step.accepted ? "accepted" : last, over: false });
    }
    return found;
  }
  for (let index = 0; index < step.accepted; index++)
    found.push({ token: step.drafts[index], at: place + index, kind: "accepted", draft: index, over: place + index >= end });
  const next = place + step.accepted;
  if (isRefused)
    found.push({ token: step.drafts[step.accepted], at: null, kind: "rejected", draft: step.accepted, over: next >= end });
  if (step.chosen !== null)
    found.push({ token: step.chosen, at: next, kind: last, over: next >= end });
  for (let index = step.accepted + 1; index < step.drafts.length; index++)
    found.push({ token: step.drafts[index], at: null, kind: "unjudged", draft: index, over: next >= end });
  return found;
}

const KIND_WORDS = {
  accepted: "accepted draft token",
  rejected: "refused draft token",
  recovered: "the target's choice instead",
  bonus: "bonus token: all drafts were accepted",
  unjudged: "draft token behind the refused one, never judged",
};

/* Every step of a sample with its place; steps continue each other unless the engine said otherwise. */
function* stepsOf(table, sample) {
  let place = table.columns.prompt_length[sample] + 1;
  for (let row = table.steps[sample]; row < table.steps[sample + 1]; row++) {
    const step = table.step(row);
    if (step.movedTo !== null) place = step.movedTo;
    yield { step, place, number: row - table.steps[sample] };
    place += step.accepted + 1;
  }
}

class SampleView {
  constructor(table, sample, options) {
    this.table = table;
    this.sample = sample;
    this.options = options;
    this.output = table.output(sample);
    this.promptLength = table.columns.prompt_length[sample];
    this.divergence = table.divergences.get(sample);
    this.parted = this.divergence ? this.promptLength + this.divergence.index : null;
    this.steps = [...stepsOf(table, sample)];
    this.drawn = 0;
  }

  draw(target) {
    const { table, sample } = this;
    target.append(make("h3", "mono", table.names.id[sample]), make("p", "soft", this.about()));
    if (table.void[sample]) target.append(make("p", "note", "Void: " + table.void[sample] + ". A loop is easy to draft; its acceptance means nothing."));
    if (this.divergence) target.append(this.parting());
    if (this.steps.length) target.append(...this.strip());
    target.append(this.tools());
    target.append(this.key());
    const prompt = table.prompt(sample);
    const hidden = this.promptLength - prompt.length;
    const box = make("div", "prompt mono", (hidden > 0 ? "… " + hidden.toLocaleString("en") + " tokens before … " : "") + table.joined(prompt).replaceAll("⏎", "⏎\n"));
    box.title = "End of the prompt";
    target.append(box);
    requestAnimationFrame(() => { box.scrollTop = box.scrollHeight; });
    this.body = make("div", this.options.flow ? "tokens flow" : "tokens");
    target.append(this.body);
    this.start();
  }

  about() {
    const { table, sample } = this;
    const length = table.lengths[sample];
    const numSteps = this.steps.length || table.get("counted_steps", sample);
    return [
      table.names.category[table.columns.category[sample]],
      this.output.length.toLocaleString("en") + " output tokens after " + this.promptLength.toLocaleString("en") + " of prompt",
      numSteps === null ? "steps: no data" : numSteps.toLocaleString("en") + " steps",
      "acceptance length " + (isNaN(length) ? "no data" : length.toFixed(2)),
      "ended by " + table.names.finish[table.columns.finish[sample]],
    ].join(" · ");
  }

  /* All steps at a glance: how much of each was accepted. A click goes there. */
  strip() {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    const count = this.steps.length;
    svg.setAttribute("class", "strip");
    svg.setAttribute("viewBox", "0 0 " + count + " 1");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    svg.style.maxWidth = count * WIDEST_COLUMN + "px";
    let accepted = "", refused = "";
    const gap = count > 300 ? 0 : 0.15;
    this.steps.forEach(({ step }, index) => {
      const share = step.drafted ? step.accepted / step.drafted : 0;
      const right = index + 1 - gap;
      accepted += "M" + index + " 1V" + (1 - share) + "H" + right + "V1Z";
      if (share < 1) refused += "M" + index + " " + (1 - share) + "V0H" + right + "V" + (1 - share) + "Z";
    });
    for (const [name, path] of [["acc", accepted], ["top", refused]]) {
      const node = document.createElementNS(space, "path");
      node.setAttribute("class", name);
      node.setAttribute("d", path);
      svg.append(node);
    }
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      this.goTo(Math.min(count - 1, Math.floor(((event.clientX - box.left) / box.width) * count)));
    });
    return [svg, make("p", "strip-note", "One column a step: accepted share of its drafts. Click to go there.")];
  }

  tools() {
    const box = make("div", "tools no-print");
    const toggle = (text, name) => {
      const button = make("button", "small", text);
      button.type = "button";
      button.setAttribute("aria-pressed", String(this.options[name]));
      button.addEventListener("click", () => this.options.set(name, !this.options[name]));
      box.append(button);
    };
    if (this.steps.length) {
      toggle("Running text", "flow");
      toggle("Drafts never judged", "tails");
    }
    return box;
  }

  key() {
    const box = make("div", "key");
    if (!this.steps.length) return box;
    const kinds = [["prefill", "prefill token"], ["accepted", "accepted"], ["rejected", "refused"], ["recovered", "target's choice instead"], ["bonus", "bonus"]];
    if (this.options.tails) kinds.push(["unjudged", "never judged"]);
    kinds.push(["accepted over", "past the end of the text"]);
    for (const [name, text] of kinds) box.append(make("span", "chip " + name, text));
    return box;
  }

  start() {
    if (!this.steps.length) {
      this.body.className = "tokens flow";
      this.output.forEach((token, index) => this.addFlow(this.body, { token, at: this.promptLength + index, kind: "plain", over: false }, "Output token " + index));
      return;
    }
    const first = this.output.length ? this.chipOf({ token: this.output[0], at: this.promptLength, kind: "prefill", over: false }, "The token that prefill emitted; it belongs to no step.") : null;
    if (this.options.flow) { if (first) this.body.append(first); }
    else {
      const row = make("div", "step");
      const drawn = make("div", "drawn");
      if (first) drawn.append(first);
      row.append(this.place("prefill", this.promptLength), drawn, make("div", "verdict", ""));
      this.body.append(row);
    }
    this.sentinel = make("div", "soft", "");
    this.body.append(this.sentinel);
    this.more();
    if (this.drawn < this.steps.length) {
      this.watcher = new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) this.more(); }, { rootMargin: "600px", scrollMargin: "600px" });
      this.watcher.observe(this.sentinel);
    }
  }

  more(upTo) {
    const end = Math.min(this.steps.length, Math.max(this.drawn + STEPS_AT_ONCE, (upTo || 0) + 1));
    const piece = document.createDocumentFragment();
    for (; this.drawn < end; this.drawn++) {
      if (this.options.flow) this.flowStep(piece, this.steps[this.drawn]);
      else piece.append(this.stepRow(this.steps[this.drawn]));
    }
    this.sentinel.before(piece);
    if (this.drawn === this.steps.length && this.watcher) this.watcher.disconnect();
  }

  goTo(number) {
    if (number >= this.drawn) this.more(number);
    const node = this.body.querySelector('[data-step="' + number + '"]');
    if (!node) return;
    for (const other of this.body.querySelectorAll(".found")) other.classList.remove("found");
    node.classList.add("found");
    node.scrollIntoView({ block: "center" });
  }

  /* Which step, how much of it was accepted, and where it stands. */
  place(name, position) {
    const node = make("div", "no");
    const index = (position - this.promptLength).toLocaleString("en");
    const where = make("div", "", "output " + index + ", context " + position.toLocaleString("en"));
    where.title = "Index of the first token in the output; tokens before it, prompt included.";
    node.append(make("div", "name", name), where);
    return node;
  }

  chipOf(item, title) {
    const node = chip(this.table, item.token, item.kind + (item.over ? " over" : ""), title + (item.over ? " Past the end of the text." : ""),
      this.options.flow && (item.kind === "accepted" || item.kind === "plain"));
    if (item.at !== null && item.at === this.parted) {
      node.classList.add("parted");
      node.title += " Here the output parts from the target alone.";
    }
    return node;
  }

  titleOf(item, number) {
    const of = item.draft === undefined ? "" : ", draft position " + item.draft;
    return "Step " + (number + 1) + ": " + KIND_WORDS[item.kind] + of + (item.at === null ? "." : ", output token " + (item.at - this.promptLength) + ".");
  }

  stepRow({ step, place, number }) {
    const row = make("div", "step");
    row.dataset.step = number;
    const drawn = make("div", "drawn");
    for (const item of tokensOf(this.table, this.sample, step, place, this.output)) {
      if (item.kind === "unjudged" && !this.options.tails) continue;
      if (item.kind === "recovered" && step.drafts.length) drawn.append(make("span", "arrow", "→"));
      drawn.append(this.chipOf(item, this.titleOf(item, number)));
    }
    row.append(this.place("step " + (number + 1) + ": " + step.accepted + " of " + step.drafted, place), drawn, this.verdict(step));
    return row;
  }

  /* The target's opinion of the refused token and of its own. */
  verdict(step) {
    const node = make("div", "verdict");
    const line = (name, text) => {
      const part = make("div", "");
      part.append(make("b", "", name), document.createTextNode(" " + text));
      node.append(part);
    };
    const isRefused = step.accepted < step.drafted;
    if (isRefused && step.drafts.length) line("refused", thinks(step.rejectedLogprob, step.rejectedRank));
    if (step.chosenLogprob !== null || step.chosenRank !== null)
      line(isRefused ? "chosen" : "bonus", thinks(step.chosenLogprob, step.chosenRank));
    return node;
  }

  flowStep(piece, { step, place, number }) {
    for (const item of tokensOf(this.table, this.sample, step, place, this.output)) {
      if (item.kind === "unjudged" && !this.options.tails) continue;
      let title = this.titleOf(item, number);
      if (item.kind === "rejected") title += " The target gives it " + thinks(step.rejectedLogprob, step.rejectedRank) + ".";
      if (item.kind === "recovered" || item.kind === "bonus") title += " The target gives it " + thinks(step.chosenLogprob, step.chosenRank) + ".";
      this.addFlow(piece, item, title);
    }
    const mark = make("span", "mark", step.accepted + "/" + step.drafted);
    mark.dataset.step = number;
    mark.title = "Step " + (number + 1) + ": " + step.accepted + " of " + step.drafted + " drafts accepted, context " + place + ".";
    piece.append(mark);
  }

  addFlow(piece, item, title) {
    piece.append(this.chipOf(item, title));
    const isShown = item.kind !== "rejected" && item.kind !== "unjudged";
    if (isShown && this.table.textOf(item.token).includes("⏎")) piece.append(make("br"));
  }

  /* Both continuations from the first token that differs. */
  parting() {
    const { divergence: item, table } = this;
    const box = make("div", "parting " + item.kind);
    const verdicts = {
      tie: "A numerical tie: both are within this machine's noise of each other. No fault.",
      fault: "The target clearly prefers one of the two: a fault.",
      untriaged: "The target's scores at this place are not known.",
    };
    box.append(make("p", "", "Parts from the target alone at output token " + item.index.toLocaleString("en") + " (context " + this.parted.toLocaleString("en") + "). " + verdicts[item.kind]));
    const common = Array.from(this.output.slice(Math.max(0, item.index - CONTEXT_TOKENS), item.index));
    const rest = Array.from(this.output.slice(item.index, item.index + CONTINUATION_TOKENS));
    const score = (logprob) => (logprob === null ? "" : ", " + percent(logprob));
    const side = (name, logprob, tokens, ends) => {
      const line = make("div", "side");
      const shown = make("div", "flow tokens");
      for (const token of common) shown.append(chip(table, token, "plain", "Common to both.", true));
      tokens.slice(0, CONTINUATION_TOKENS).forEach((token, index) => shown.append(chip(table, token, index ? "" : "parted", index ? "" : "The first token that differs.", index > 0)));
      if (ends) shown.append(make("span", "soft", " end of text"));
      else shown.append(make("span", "soft", " …"));
      line.append(make("span", "", name + score(logprob)), shown);
      box.append(line);
    };
    side("target alone", item.target_logprob, item.alternative, item.alternative_ends && item.alternative.length <= CONTINUATION_TOKENS);
    side("speculation (" + item.source + ")", item.speculative_logprob, rest, item.index + CONTINUATION_TOKENS >= this.output.length);
    const number = this.steps.findIndex(({ step, place }) => this.parted >= place && this.parted <= place + step.accepted);
    if (number >= 0) {
      const button = make("button", "small", "Go to step " + (number + 1));
      button.type = "button";
      button.addEventListener("click", () => this.goTo(number));
      box.append(button);
    }
    return box;
  }
}
