// The model in the page: heed as WebAssembly (wasm/live.cc), in a worker, so that the page stays awake.

/**
   What the worker runs. It becomes text on the way there, so it knows `inflated`, javascriptOf() and foundIn(), and
   nothing else of the page.
 */
function answerInWorker() {
  const encoder = new TextEncoder(), decoder = new TextDecoder('utf-8', {ignoreBOM: true});
  let heed = null;  // the module's exports
  const patterns = [];
  let found = [];  // by the last search

  const bytesAt = (at, size) => new Uint8Array(heed.memory.buffer, at, size);
  const copyAt = (at, size) => bytesAt(at, size).slice();
  const textAt = (at, size) => decoder.decode(bytesAt(at, size));

  // The buffer through which everything goes in and comes out.
  function give(bytes) {
    const at = heed.heed_buffer(bytes.length);
    if (at === 0) throw new Error(takenText());
    bytesAt(at, bytes.length).set(bytes);
  }
  const giveText = text => give(encoder.encode(text));
  const taken = () => copyAt(heed.heed_buffer_at(), heed.heed_buffer_size());
  const takenText = () => decoder.decode(taken());

  /** What the C library asks of a system. There is none here, but a clock. */
  const system = {
    clock_time_get(clock, precision, at) {
      const now = BigInt(Math.round(1e6 * (clock === 0 ? Date.now() : performance.now())));
      new DataView(heed.memory.buffer).setBigUint64(at, now, true);
      return 0;
    },
    environ_sizes_get(count, size) {
      const view = new DataView(heed.memory.buffer);
      view.setUint32(count, 0, true);
      view.setUint32(size, 0, true);
      return 0;
    },
    environ_get: () => 0,
    fd_write(file, vectors, count, written) {  // what would be said on standard error
      const view = new DataView(heed.memory.buffer);
      let size = 0;
      for (let i = 0; i < count; ++i) size += view.getUint32(vectors + 8 * i + 4, true);
      view.setUint32(written, size, true);
      return 0;
    },
    proc_exit(code) { throw new Error(`exit ${code}`); },
    emscripten_notify_memory_growth: () => {},
    page_written: (at, size) => postMessage({written: textAt(at, size)}),
    pattern_made(at, size) {
      try {
        return patterns.push(new RegExp(javascriptOf(textAt(at, size)), 'gu')) - 1;
      } catch {
        return -1;
      }
    },
    pattern_found(number, at, size) {
      try {
        found = foundIn(patterns[number], textAt(at, size), size);
        return found.length / 2;
      } catch {
        return -1;
      }
    },
    pattern_taken: at => new Uint32Array(heed.memory.buffer, at, found.length).set(found),
  };
  const UNKNOWN = 52;  // ENOSYS
  const asked = module => {
    const imports = {};
    for (const {module: from, name} of WebAssembly.Module.imports(module))
      (imports[from] ??= {})[name] = system[name] ?? (() => (from === 'env' ? -UNKNOWN : UNKNOWN));
    return imports;
  };

  async function unpacked({block, text}) {
    try {
      return await inflated(text);
    } catch {
      throw Object.assign(new Error('damaged'), {block});
    }
  }

  /** Weights are kept as the bytes at even places, then those at odd ones (in_planes in packing.h). */
  function joined(planes) {
    const bytes = new Uint8Array(planes.length), half = (planes.length + 1) >> 1;
    for (let i = 0; i < half; ++i) bytes[2 * i] = planes[i];
    for (let i = half; i < planes.length; ++i) bytes[2 * (i - half) + 1] = planes[i];
    return bytes;
  }

  async function load({module, files}) {
    const compiled = await WebAssembly.compile(await unpacked(module));
    heed = (await WebAssembly.instantiate(compiled, asked(compiled))).exports;
    heed._initialize();
    for (const [name, content] of files) {
      const kept = new Uint8Array(await unpacked(content)), bytes = name.endsWith('.safetensors') ? joined(kept) : kept;
      giveText(name);
      heed.heed_take_name();
      give(bytes);
      heed.heed_take_file();
    }
    if (heed.heed_load() < 0) throw new Error(takenText());
    return {};
  }

  function run({text, beam, generate, change = ''}) {
    giveText(change);
    if (heed.heed_change() < 0) throw new Error(takenText());
    giveText(text);
    const count = heed.heed_run(beam, generate);
    if (count < 0) throw new Error(takenText());
    const data = JSON.parse(takenText());
    const blocks = [];
    for (let i = 0; i < count; ++i) {
      heed.heed_take_block(i);
      blocks.push(taken().buffer);
    }
    return {data, blocks};
  }

  const work = {load, run};
  addEventListener('message', async ({data: {what, ...given}}) => {
    try {
      const answer = await work[what](given);
      postMessage({answer}, answer.blocks ?? []);
    } catch (error) {
      // Behind a trap the module's memory is what it happened to be.
      postMessage(
          {error: error.message || String(error), block: error.block, lost: error instanceof WebAssembly.RuntimeError});
    }
  });
}
