// Uploads files: cuts them into parts, which workers send in parallel. Parts that the server has are not sent again.
// `ask` and `Refusal` are in change.js.
'use strict';

{
  // Browsers open at most six HTTP/1.1 connections to a server. One is left for the list and one
  // for the rest of the page.
  const WORKERS = 4;
  // Maximum number of files in flight: enough to hide the two round trips at the start and end of a small file.
  const FILES = 3;
  const api = `${page.base}/.firstbyte/uploads`;
  const panel = find('.uploads'), list = panel.querySelector('ul'), heading = panel.querySelector('h2');
  const clear = find('#clear'), forAll = find('#for-all');
  const queue = [];                 // uploads that wait for their turn
  const all = new Set();            // every upload of this page that is not cleared
  let running = 0;
  let answerForAll = null;          // the answer for all names that are taken, if the user gave one

  const sleep = (ms) => new Promise((done) => { setTimeout(done, ms); });

  // True if the same request may succeed later: the server is unreachable, starting, or busy with
  // an earlier attempt.
  const isTemporary = (error) => error.status === 0 || error.status === 502 || error.status === 503 || error.code === 'in-use';

  /* ---- workers ---- */

  const idle = [], waiting = [];
  let made = 0;

  async function borrowWorker() {
    if (idle.length) return idle.pop();
    if (made < WORKERS) {
      made += 1;
      return new Worker(`${page.base}/.firstbyte/upload-worker.js`);
    }
    return new Promise((take) => { waiting.push(take); });
  }

  function returnWorker(worker) {
    const next = waiting.shift();
    if (next) next(worker); else idle.push(worker);
  }

  function sendPart(worker, url, blob, held, signal, onSent) {
    return new Promise((done, fail) => {
      const stop = () => fail(new Refusal('cancelled', 'cancelled'));
      signal.addEventListener('abort', stop, { once: true });
      worker.onmessage = ({ data }) => {
        if (data.sent !== undefined) { onSent(data.sent); return; }
        signal.removeEventListener('abort', stop);
        if (data.done) done(data); else fail(new Refusal(data.failed, data.code, data.status));
      };
      worker.postMessage({ url, blob, held });
    });
  }

  /* ---- one upload ---- */

  class Upload {
    constructor(file, folder) {
      this.file = file;
      this.folder = folder;          // percent-encoded path of its directory
      this.sent = new Map();         // part number -> bytes sent of it
      this.heldBytes = 0;
      this.sums = [];                // CRC32C of each part
      this.control = new AbortController();
      this.samples = [];
      this.element = find('#upload').content.firstElementChild.cloneNode(true);
      this.element.querySelector('.title').textContent = visible(folder === page.path ? file.name : `${decodeLossy(folder.slice(page.path.length))}${file.name}`);
      list.append(this.element);
      this.say('waiting');
      this.acts([['Cancel', () => this.cancel()]]);
    }

    say(text, kind = '') {
      this.element.className = kind;
      this.element.querySelector('.state').textContent = text;
      this.element.querySelector('progress').hidden = kind === 'done' || kind === 'failed' || kind === 'ask';
    }

    acts(buttons) {
      this.element.querySelector('.acts').replaceChildren(...buttons.map(([label, act]) => {
        const button = document.createElement('button');
        button.type = 'button';
        button.textContent = label;
        button.addEventListener('click', act);
        return button;
      }));
    }

    url(rest = '') { return `${api}${rest}?path=${encodeURIComponent(this.folder)}`; }

    cancel() {
      this.control.abort();
      const at = queue.indexOf(this);
      if (at >= 0) { queue.splice(at, 1); this.end('cancelled', 'failed'); }
    }

    end(text, kind) {
      this.finished = true;
      this.say(text, kind);
      this.acts(kind === 'failed' ? [['Try again', () => this.again()]] : []);
      summary();
    }

    again() {
      this.finished = false;
      this.control = new AbortController();
      this.acts([['Cancel', () => this.cancel()]]);
      this.say('waiting');
      queue.push(this);
      pump();
    }

    // Repeats requests after temporary failures without limit, because the server may be restarting.
    async persist(work) {
      for (let wait = 500; ; wait = Math.min(wait * 2, 10_000)) {
        if (this.control.signal.aborted) throw new Refusal('cancelled', 'cancelled');
        try {
          return await work();
        } catch (error) {
          if (!isTemporary(error)) throw error;
          this.trouble = error.status === 0 ? 'waiting for the server' : error.message;
          this.show();
          await sleep(wait);
        }
      }
    }

    async run() {
      const { name, size, lastModified, type } = this.file;
      const begun = await this.persist(() => ask('POST', this.url(), { name, size, mtime: lastModified, type }));
      this.id = begun.id;
      let existing = 'refuse';
      if (begun.existing) {
        if (begun.existing.size === size && begun.existing.mtime === lastModified) {
          await ask('DELETE', this.url(`/${this.id}`));
          this.end('already here, with the same size and time', 'done');
          return;
        }
        existing = await this.askExisting();
      }
      await this.sendParts(begun);
      for (let resent = 0; ;) {
        if (existing === 'skip') {
          await ask('DELETE', this.url(`/${this.id}`));
          this.end('skipped', 'done');
          return;
        }
        try {
          this.trouble = null;
          const done = await this.persist(() => ask('POST', this.url(`/${this.id}/complete`), { existing, crc32c: this.sums }));
          this.end(`done, ${humanSize(size)}${done.name === name ? '' : `, as ${visible(done.name)}`}`, 'done');
          return;
        } catch (error) {
          if (error.code === 'exists') {
            existing = await this.askExisting();
          } else if (error.code === 'incomplete' && resent < 3) {
            // Another file of this name, size and time is being sent too, and its parts replaced some of these.
            resent += 1;
            await this.sendParts(await this.persist(() => ask('POST', this.url(), { name, size, mtime: lastModified, type })));
          } else {
            throw error;
          }
        }
      }
    }

    async sendParts({ part_size: partSize, held, crc32c }) {
      const { size } = this.file, count = Math.ceil(size / partSize), there = new Map(held.map((n, at) => [n, crc32c[at]]));
      const length = (n) => Math.min(partSize, size - n * partSize);
      this.resumed = this.heldBytes = 0;
      const missing = Array.from({ length: count }, (_, n) => n);
      this.timer = setInterval(() => this.show(), 500);
      this.show();
      // Each lane takes the next part when its previous part is complete. The lanes of all files share the workers.
      const lane = async () => {
        while (missing.length) {
          const number = missing.shift();
          const blob = this.file.slice(number * partSize, number * partSize + length(number));
          const { sum, wasHeld } = await this.sendOne(number, blob, there.get(number));
          this.sums[number] = sum;
          this.sent.delete(number);
          this.heldBytes += length(number);
          if (wasHeld) {
            // The part was not sent, so it does not count in the rate.
            this.resumed += length(number);
            for (const sample of this.samples) sample[1] += length(number);
          }
          this.trouble = null;
        }
      };
      try {
        await Promise.all(Array.from({ length: WORKERS }, lane));
      } catch (error) {
        missing.length = 0;
        this.control.abort();
        throw error;
      } finally {
        clearInterval(this.timer);
        this.sent.clear();
      }
    }

    async sendOne(number, blob, held) {
      let damaged = 0;
      return this.persist(async () => {
        const worker = await borrowWorker();
        const { signal } = this.control;
        try {
          if (signal.aborted) throw new Refusal('cancelled', 'cancelled');
          const url = this.url(`/${this.id}/${number}`);
          const done = await sendPart(worker, url, blob, held, signal, (bytes) => this.sent.set(number, bytes));
          returnWorker(worker);
          return done;
        } catch (error) {
          this.sent.delete(number);
          if (error.code === 'cancelled') {
            // Ending the worker ends its request.
            worker.terminate();
            returnWorker(new Worker(`${page.base}/.firstbyte/upload-worker.js`));
          } else {
            returnWorker(worker);
          }
          damaged += error.code === 'checksum';
          if (error.code === 'checksum' && damaged < 3) error.status = 0;
          throw error;
        }
      });
    }

    askExisting() {
      if (answerForAll) return Promise.resolve(answerForAll);
      return new Promise((answer, fail) => {
        this.control.signal.addEventListener('abort', () => {
          this.choose = null;
          fail(new Refusal('cancelled', 'cancelled'));
        }, { once: true });
        const choose = (what) => () => {
          if (forAll.firstElementChild.checked) {
            answerForAll = what;
            for (const other of all) other.choose?.(what);
          }
          this.choose?.(what);
        };
        this.choose = (what) => {
          this.choose = null;
          this.acts([['Cancel', () => this.cancel()]]);
          forAll.hidden = ![...all].some((u) => u.choose);
          this.say('going on');
          answer(what);
        };
        this.say('A file of this name is here already.', 'ask');
        this.acts([['Replace', choose('replace')], ['Keep both', choose('keep-both')], ['Skip', choose('skip')]]);
        forAll.hidden = false;
      });
    }

    show() {
      if (this.finished) return;
      const { size } = this.file;
      const now = performance.now();
      let bytes = this.heldBytes;
      for (const part of this.sent.values()) bytes += part;
      this.samples.push([now, bytes]);
      // The rate of the last ten seconds: steady enough to read, quick enough to follow the network.
      while (this.samples.length > 2 && now - this.samples[0][0] > 10_000) this.samples.shift();
      const [since, before] = this.samples[0];
      const rate = Math.max(0, bytes - before) / Math.max(0.001, (now - since) / 1000);
      const progress = this.element.querySelector('progress');
      progress.value = size ? bytes / size : 1;
      const parts = [`${humanSize(bytes)} of ${humanSize(size)}`];
      if (this.trouble) parts.push(this.trouble);
      else if (rate > 0 && now - since > 900) parts.push(`${humanSize(Math.round(rate))}/s`, `${duration((size - bytes) / rate)} left`);
      if (this.resumed) parts.push(`${humanSize(this.resumed)} were here already`);
      this.say(parts.join(' · '));
    }
  }

  function duration(seconds) {
    if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
    if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
    return `${(seconds / 3600).toFixed(1)} h`;
  }

  function decodeLossy(path) {
    try { return decodeURIComponent(path); } catch { return path; }
  }

  function summary() {
    const files = [...all], ended = files.filter((u) => u.finished).length;
    heading.textContent = files.length === ended ? (ended ? `Uploads: ${ended} finished` : 'Uploads') : `Uploading ${ended + 1} of ${files.length}`;
    clear.hidden = ended === 0;
    panel.hidden = list.children.length === 0;
  }

  function pump() {
    while (running < FILES && queue.length) {
      const upload = queue.shift();
      running += 1;
      upload.run()
        .catch((error) => upload.end(error.code === 'cancelled' ? 'stopped; what was sent is kept for two weeks' : error.message, 'failed'))
        .finally(() => {
          running -= 1;
          if (!running && !queue.length) {
            document.dispatchEvent(new Event('firstbyte:changed'));
            showUnfinished();
          }
          pump();
        });
    }
    summary();
  }

  const encodePath = (text) => text.split('/').map(encodeURIComponent).join('/');

  function add(files) {
    if (![...all].some((upload) => !upload.finished)) { answerForAll = null; forAll.firstElementChild.checked = false; }
    for (const { file, path } of files) {
      const folder = page.path + (path ? `${encodePath(path)}/` : '');
      // The same file was picked again during its upload. One upload is enough.
      if ([...all].some((u) => !u.finished && u.folder === folder && u.file.name === file.name)) continue;
      const upload = new Upload(file, folder);
      all.add(upload);
      queue.push(upload);
    }
    list.querySelectorAll('li.unfinished').forEach((item) => item.remove());
    pump();
  }

  /* ---- unfinished uploads of earlier visits ---- */

  async function showUnfinished() {
    const left = await ask('GET', `${api}?path=${encodeURIComponent(page.path)}`).catch(() => []);
    list.querySelectorAll('li.unfinished').forEach((item) => item.remove());
    for (const upload of left) {
      if ([...all].some((u) => u.id === upload.id && (!u.finished || u.element.className === 'failed'))) continue;
      const item = find('#upload').content.firstElementChild.cloneNode(true);
      const bytes = Math.min(upload.size, upload.held.length * upload.part_size);
      item.className = 'unfinished';
      item.querySelector('.title').textContent = visible(upload.name);
      item.querySelector('.state').textContent = `unfinished: ${humanSize(bytes)} of ${humanSize(upload.size)} are here · choose the same file to go on`;
      item.querySelector('progress').value = upload.size ? bytes / upload.size : 0;
      const button = (label, act) => Object.assign(document.createElement('button'), { type: 'button', textContent: label, onclick: act });
      item.querySelector('.acts').append(
        button('Choose file', () => find('#files').click()),
        button('Remove', async () => {
          try {
            await ask('DELETE', `${api}/${upload.id}?path=${encodeURIComponent(page.path)}`);
            item.remove();
          } catch (error) {
            item.querySelector('.state').textContent = error.message;
          }
          summary();
        }),
      );
      list.append(item);
    }
    summary();
  }

  /* ---- picking and dropping ---- */

  const folderOf = (path) => path.split('/').slice(0, -1).join('/');
  for (const [button, input] of [['#pick-files', '#files'], ['#pick-folder', '#folder-input']]) {
    find(button).addEventListener('click', () => find(input).click());
    find(input).addEventListener('change', (event) => {
      add([...event.target.files].map((file) => ({ file, path: folderOf(file.webkitRelativePath ?? '') })));
      event.target.value = '';
    });
  }

  async function* walk(entry, path) {
    if (entry.isFile) {
      yield { file: await new Promise((done, fail) => { entry.file(done, fail); }), path };
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      // A reader gives its entries in batches, and an empty one at the end.
      const batch = await new Promise((done, fail) => { reader.readEntries(done, fail); });
      if (!batch.length) return;
      for (const inner of batch) yield* walk(inner, path ? `${path}/${entry.name}` : entry.name);
    }
  }

  // The other entries of the same drop are uploaded.
  function showUnreadable(name, error) {
    const item = find('#upload').content.firstElementChild.cloneNode(true);
    item.className = 'failed';
    item.querySelector('.title').textContent = visible(name);
    item.querySelector('.state').textContent = `not all of it could be read: ${error.message}`;
    list.append(item);
  }

  let depth = 0;
  const carriesFiles = (event) => [...event.dataTransfer.types].includes('Files');
  const shade = (change) => { depth = Math.max(0, depth + change); find('.drop').hidden = depth === 0; };
  addEventListener('dragenter', (event) => { if (carriesFiles(event)) shade(1); });
  addEventListener('dragleave', (event) => { if (carriesFiles(event)) shade(-1); });
  addEventListener('dragover', (event) => { if (carriesFiles(event)) event.preventDefault(); });
  addEventListener('drop', async (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    shade(-depth);
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
    const files = [];
    for (const entry of entries) {
      try {
        for await (const file of walk(entry, '')) files.push(file);
      } catch (error) {
        showUnreadable(entry.name, error);
      }
    }
    add(files);
  });

  clear.addEventListener('click', () => {
    for (const upload of all) if (upload.finished) { upload.element.remove(); all.delete(upload); }
    summary();
  });
  addEventListener('beforeunload', (event) => { if (running || queue.length) event.preventDefault(); });
  showUnfinished();
}
