/* The list of samples, its filters, and which sample is shown. Only the rows in sight exist. */

const ROW_HEIGHT = 50;
const SPARE_ROWS = 6;
const TYPING_PAUSE_MS = 150;

class SampleBrowser {
  constructor(table) {
    this.table = table;
    this.shown = [];
    this.selected = -1;
    this.pair = null;
    this.texts = new Map();
    this.longest = 1;
    for (const length of table.lengths) if (length > this.longest) this.longest = length;
    const redraw = (name, value) => { this.options[name] = value; this.show(); };
    this.options = { flow: false, tails: false, set: redraw };
  }

  start() {
    const { table } = this;
    table.names.category.forEach((name, index) => {
      const option = make("option", "", name);
      option.value = String(index);
      element("category").append(option);
    });
    for (const id of ["category", "order", "only"]) element(id).addEventListener("change", () => this.refresh());
    let pause = 0;
    element("search").addEventListener("input", () => {
      clearTimeout(pause);
      pause = setTimeout(() => this.refresh(), TYPING_PAUSE_MS);
    });
    document.querySelector(".filters").addEventListener("submit", (event) => { event.preventDefault(); this.refresh(); });
    element("pair").addEventListener("click", () => { this.pair = null; this.refresh(); });
    this.startList();
    this.startPairs();
    addEventListener("hashchange", () => this.follow());
    element("samples-app").hidden = false;
    const left = table.numInRun - table.length;
    element("samples-state").textContent = left
      ? table.length.toLocaleString("en") + " of " + table.numInRun.toLocaleString("en") + " requests are in this page (divergent and void ones first); all are in the trace file."
      : "";
    this.refresh();
    this.follow();
  }

  startList() {
    const list = element("list");
    let isWaiting = false;
    list.addEventListener("scroll", () => {
      if (isWaiting) return;
      isWaiting = true;
      requestAnimationFrame(() => { isWaiting = false; this.drawRows(); });
    }, { passive: true });
    addEventListener("resize", () => this.drawRows());
    list.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.select(Number(row.dataset.index), true);
    });
    list.addEventListener("keydown", (event) => {
      const page = Math.max(1, Math.floor(list.clientHeight / ROW_HEIGHT) - 1);
      const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
      if (!(event.key in moves) || !this.shown.length) return;
      event.preventDefault();
      this.select(Math.min(this.shown.length - 1, Math.max(0, this.selected + moves[event.key])), true);
    });
  }

  /* The buttons beside the most frequent rejected pairs. */
  startPairs() {
    for (const node of document.querySelectorAll(".js-only")) node.hidden = false;
    for (const button of document.querySelectorAll("button[data-drafted]")) {
      button.addEventListener("click", () => {
        const places = [button.dataset.drafted, button.dataset.chosen].map((id) => this.table.placeOfToken.get(Number(id)));
        if (places.includes(undefined)) return;
        this.pair = places;
        this.refresh();
        element("samples").scrollIntoView();
      });
    }
  }

  hasPair(sample) {
    const { table } = this;
    const { accepted, drafted, draft, chosen } = table.columns;
    for (let row = table.steps[sample]; row < table.steps[sample + 1]; row++) {
      const place = table.drafts[row] + accepted[row];
      if (accepted[row] < drafted[row] && place < table.drafts[row + 1] && draft[place] === this.pair[0] && chosen[row] === this.pair[1])
        return row - table.steps[sample];
    }
    return -1;
  }

  textOf(sample) {
    let text = this.texts.get(sample);
    if (text === undefined) {
      const { table } = this;
      text = (table.names.id[sample] + "\n" + table.joined(table.prompt(sample)) + "\n" + table.joined(table.output(sample))).toLowerCase();
      this.texts.set(sample, text);
    }
    return text;
  }

  refresh() {
    const { table } = this;
    const category = element("category").value, only = element("only").value;
    const wanted = element("search").value.trim().replaceAll("\n", "⏎").toLowerCase();
    const fits = (sample) => {
      if (category && table.columns.category[sample] !== Number(category)) return false;
      const divergence = table.divergences.get(sample);
      if (only === "divergent" && !divergence) return false;
      if (only === "fault" && (!divergence || divergence.kind !== "fault")) return false;
      if (only === "void" && table.void[sample] === undefined) return false;
      if (this.pair && this.hasPair(sample) < 0) return false;
      return !wanted || this.textOf(sample).includes(wanted);
    };
    this.shown = [];
    for (let sample = 0; sample < table.length; sample++) if (fits(sample)) this.shown.push(sample);
    this.sort(element("order").value);
    element("count").textContent = this.shown.length.toLocaleString("en") + " of " + table.length.toLocaleString("en");
    const button = element("pair");
    button.hidden = !this.pair;
    if (this.pair) button.textContent = "“" + table.textOf(this.pair[0]) + "” refused for “" + table.textOf(this.pair[1]) + "” ✕";
    element("spacer").style.height = this.shown.length * ROW_HEIGHT + "px";
    element("list").scrollTop = 0;
    this.select(this.shown.length ? 0 : -1, false);
  }

  sort(order) {
    const { lengths } = this.table;
    const known = (sample, missing) => (isNaN(lengths[sample]) ? missing : lengths[sample]);
    if (order === "worst") this.shown.sort((a, b) => known(a, 1e9) - known(b, 1e9) || a - b);
    if (order === "best") this.shown.sort((a, b) => known(b, -1) - known(a, -1) || a - b);
    if (order === "steps") this.shown.sort((a, b) => this.table.numSteps(b) - this.table.numSteps(a) || a - b);
  }

  drawRows() {
    const list = element("list");
    const first = Math.max(0, Math.floor(list.scrollTop / ROW_HEIGHT) - SPARE_ROWS);
    const last = Math.min(this.shown.length, first + Math.ceil(list.clientHeight / ROW_HEIGHT) + 2 * SPARE_ROWS);
    const rows = [];
    for (let index = first; index < last; index++) rows.push(this.row(index));
    element("rows").replaceChildren(...rows);
  }

  row(index) {
    const { table } = this;
    const sample = this.shown[index], length = table.lengths[sample];
    const node = make("div", "row");
    node.id = "row-" + index;
    node.dataset.index = index;
    node.style.top = index * ROW_HEIGHT + "px";
    node.setAttribute("role", "option");
    node.setAttribute("aria-selected", String(index === this.selected));
    node.setAttribute("aria-setsize", this.shown.length);
    node.setAttribute("aria-posinset", index + 1);
    const top = make("div", ""), about = make("div", "about");
    top.append(make("span", "id mono", table.names.id[sample]));
    const divergence = table.divergences.get(sample);
    const words = { tie: ["tie", "plain"], fault: ["fault", "error"], untriaged: ["parts", "warning"] };
    if (divergence) top.append(make("span", "badge " + words[divergence.kind][1], words[divergence.kind][0]));
    if (table.void[sample] !== undefined) top.append(make("span", "badge warning", "void"));
    top.append(make("b", "", isNaN(length) ? "no data" : length.toFixed(2)));
    const meter = make("span", "meter"), bar = make("i", "");
    bar.style.width = (isNaN(length) || this.longest <= 1 ? 0 : (100 * (length - 1)) / (this.longest - 1)) + "%";
    meter.append(bar);
    about.append(make("span", "", table.names.category[table.columns.category[sample]] + " · " + table.columns.output_length[sample].toLocaleString("en") + " tokens"), meter);
    node.append(top, about);
    return node;
  }

  select(index, byUser) {
    this.selected = index;
    const list = element("list");
    if (index >= 0) {
      if (index * ROW_HEIGHT < list.scrollTop) list.scrollTop = index * ROW_HEIGHT;
      if ((index + 1) * ROW_HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = (index + 1) * ROW_HEIGHT - list.clientHeight;
      list.setAttribute("aria-activedescendant", "row-" + index);
      if (byUser) this.remember(this.shown[index]);
    } else list.removeAttribute("aria-activedescendant");
    this.drawRows();
    this.show();
  }

  show() {
    const detail = element("detail");
    if (this.view && this.view.watcher) this.view.watcher.disconnect();
    detail.replaceChildren();
    detail.scrollTop = 0;
    this.view = null;
    if (this.selected < 0) {
      detail.append(make("p", "soft", "No sample fits the filters."));
      return;
    }
    const sample = this.shown[this.selected];
    this.view = new SampleView(this.table, sample, this.options);
    this.view.draw(detail);
    if (this.pair) this.view.goTo(this.hasPair(sample));
  }

  /* The address names the sample, so that it can be sent to somebody. */
  remember(sample) {
    try {
      history.replaceState(null, "", "#sample=" + encodeURIComponent(this.table.names.id[sample]));
    } catch {
      /* Some viewers do not let a local file change its address. */
    }
  }

  follow() {
    if (!location.hash.startsWith("#sample=")) return;
    let name;
    try {
      name = decodeURIComponent(location.hash.slice("#sample=".length));
    } catch {
      return;
    }
    const sample = this.table.names.id.indexOf(name);
    if (sample < 0) return;
    if (!this.shown.includes(sample)) {
      for (const id of ["category", "only", "search"]) element(id).value = "";
      this.pair = null;
      this.refresh();
    }
    this.select(this.shown.indexOf(sample), false);
    element("samples").scrollIntoView();
  }
}

async function startSamples() {
  const packed = element("samples-data");
  if (!packed) return;
  const state = element("samples-state");
  if (typeof DecompressionStream === "undefined") {
    state.textContent = "This browser cannot unpack the samples (it has no DecompressionStream: Chrome 80, Firefox 113 and Safari 16.4 have). The same data is in the trace file beside this page.";
    return;
  }
  state.textContent = "Unpacking …";
  try {
    new SampleBrowser(await unpackSamples(packed)).start();
  } catch (error) {
    state.textContent = "The samples cannot be read: " + error;
  }
}
startSamples();
