/* Reads the packed samples; the format is described where they are packed, in samples.py. */

async function unpackSamples(node) {
  const text = atob(node.textContent.trim());
  node.remove();
  const packed = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index++) packed[index] = text.charCodeAt(index);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new SampleTable(await new Response(stream).arrayBuffer());
}

/* Columns of all samples. A column's largest value means "no data" and comes out as null. */
class SampleTable {
  constructor(buffer) {
    const size = new DataView(buffer).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
    let place = 4 + size;
    this.columns = {};
    for (const column of header.columns) {
      const Kind = column.bytes === 2 ? Uint16Array : Uint32Array;
      this.columns[column.name] = new Kind(buffer, place, column.length);
      place += Math.ceil((column.bytes * column.length) / 4) * 4;
    }
    this.texts = header.texts;
    this.names = header.names;
    this.void = header.void;
    this.numInRun = header.num_in_run;
    this.logprobStep = header.logprob_step;
    this.length = header.names.id.length;
    this.placeOfToken = new Map(header.token_ids.map((id, index) => [id, index]));
    this.steps = this.startsOf("num_steps");
    this.prompts = this.startsOf("prompt_shown");
    this.outputs = this.startsOf("output_stored");
    this.drafts = startsOf(this.columns.num_ids, 0xffff);
    this.divergences = new Map();
    let alternative = 0;
    for (const item of header.divergences) {
      item.alternative = Array.from(
        this.columns.alternative.subarray(alternative, alternative + item.num_alternative));
      alternative += item.num_alternative;
      this.divergences.set(item.sample, item);
    }
    this.measure();
  }

  get(name, index) {
    const column = this.columns[name];
    const value = column[index];
    return value === (column.BYTES_PER_ELEMENT === 2 ? 0xffff : 0xffffffff) ? null : value;
  }

  startsOf(name) {
    const column = this.columns[name];
    return startsOf(column, column.BYTES_PER_ELEMENT === 2 ? 0xffff : 0xffffffff);
  }

  /* Acceptance length of every sample, NaN where there is no data. */
  measure() {
    this.lengths = new Float64Array(this.length).fill(NaN);
    for (let index = 0; index < this.length; index++) {
      let steps = this.steps[index + 1] - this.steps[index];
      let accepted = 0;
      for (let step = this.steps[index]; step < this.steps[index + 1]; step++)
        accepted += this.columns.accepted[step];
      if (!steps) {
        steps = this.get("counted_steps", index);
        accepted = this.get("counted_accepted", index);
        if (steps === null || accepted === null) continue;
      }
      if (steps) this.lengths[index] = 1 + accepted / steps;
    }
  }

  textOf(token) {
    return token === null ? "" : this.texts[token];
  }

  joined(tokens) {
    let text = "";
    for (const token of tokens) text += this.texts[token];
    return text;
  }

  prompt(index) {
    return this.columns.prompt.subarray(this.prompts[index], this.prompts[index + 1]);
  }

  numSteps(index) {
    return this.steps[index + 1] - this.steps[index];
  }

  /* One verify step, its tokens resolved; `number` counts from 0 within the sample. */
  step(row) {
    const start = this.drafts[row];
    return {
      accepted: this.columns.accepted[row],
      drafted: this.columns.drafted[row],
      drafts: this.columns.draft.subarray(start, this.drafts[row + 1]),
      chosen: this.get("chosen", row),
      movedTo: this.get("moved_to", row),
      rejectedLogprob: this.logprob("rejected_logprob", row),
      rejectedRank: this.get("rejected_rank", row),
      chosenLogprob: this.logprob("chosen_logprob", row),
      chosenRank: this.get("chosen_rank", row),
    };
  }

  logprob(name, row) {
    const units = this.get(name, row);
    return units === null ? null : -units * this.logprobStep;
  }

  /* Tokens of the text, as the client got it. */
  output(index) {
    if (this.outputs[index + 1] > this.outputs[index])
      return this.columns.output.subarray(this.outputs[index], this.outputs[index + 1]);
    const wanted = this.columns.output_length[index];
    const tokens = wanted ? [this.columns.first[index]] : [];
    for (let row = this.steps[index]; row < this.steps[index + 1] && tokens.length < wanted; row++) {
      const start = this.drafts[row];
      for (let draft = 0; draft < this.columns.accepted[row]; draft++)
        tokens.push(this.columns.draft[start + draft]);
      tokens.push(this.columns.chosen[row]);
    }
    return tokens.slice(0, wanted);
  }
}

/* Where each row's share of another column begins; one longer than the counts. */
function startsOf(counts, none) {
  const starts = new Uint32Array(counts.length + 1);
  for (let index = 0; index < counts.length; index++)
    starts[index + 1] = starts[index] + (counts[index] === none ? 0 : counts[index]);
  return starts;
}
