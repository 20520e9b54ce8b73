// Shows the directory listing. Entries stream as NDJSON into one array; only the rows in view are in the document.
'use strict';

const page = document.body.dataset;
const find = (selector) => document.querySelector(selector);

// The plain rows are for browsers without scripts and for programs that follow links (wget, rclone), which do not
// look into <noscript>.
find('.plain').remove();

const scroller = find('.scroller'), spacer = find('.spacer'), note = find('.note'), counts = find('.counts');
const search = find('.search input');

// Maximum height in pixels. Browsers limit an element (Firefox to about 17 million); above, the scroll bar is scaled.
const MAX_HEIGHT = 12_000_000;
// Rows kept above and below the view, so that quick scrolling shows no gap.
const MARGIN = 8;

const narrow = matchMedia('(max-width: 640px)');
const rowHeight = () => (narrow.matches ? 58 : 40);
const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: 'base' });
const timeFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
// A phone has no space for a time beside the size and the buttons, so it shows only the day.
const dayFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const numberFormat = new Intl.NumberFormat();

const order = {
  name: (a, b) => collator.compare(a.name, b.name) || (a.name < b.name ? -1 : 1),
  size: (a, b) => (a.size ?? -1) - (b.size ?? -1) || order.name(a, b),
  modified: (a, b) => (a.modified ?? 0) - (b.modified ?? 0) || order.name(a, b),
};

let all = [];            // every entry, in the chosen order
let shown = all;         // the entries that match the search
let sort = { by: 'name', down: false };
let active = -1;         // index in `shown` of the keyboard cursor's row
const picked = new Map(); // the selected entries, by their links
let loading = null;      // the AbortController of the stream, while it runs

// Shows control characters and invisible characters as escapes, because they would break the line
// or make names look alike.
function visible(name) {
  return name.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (c) => (c === '\n' ? '\\n' : c === '\t' ? '\\t' : `\\u{${c.codePointAt(0).toString(16)}}`));
}

function humanSize(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  let value = bytes, unit = -1;
  do { value /= 1024; unit += 1; } while (value >= 999.5);
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit]}`;
}

const plural = (n, one, many) => `${numberFormat.format(n)} ${n === 1 ? one : many}`;

/* ---- order and search ---- */

function arrange() {
  const { by, down } = sort;
  // Directories come first, in either direction of the order.
  all.sort((a, b) => b.directory - a.directory || (down ? -order[by](a, b) : order[by](a, b)));
  filter();
}

function filter() {
  const words = search.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  shown = words.length ? all.filter((e) => words.every((w) => e.folded.includes(w))) : all;
  active = Math.min(active, shown.length - 1);
  count();
  render();
  showPicked();
}

function count() {
  const directories = all.reduce((n, e) => n + e.directory, 0);
  const bytes = all.reduce((n, e) => n + (e.directory ? 0 : e.size ?? 0), 0);
  const files = all.length - directories, parts = [];
  if (directories) parts.push(plural(directories, 'folder', 'folders'));
  // The sizes of folders are unknown.
  if (files || !directories) parts.push(plural(files, 'file', 'files'), humanSize(bytes));
  const total = parts.join(', ');
  counts.textContent = shown.length === all.length ? total : `${numberFormat.format(shown.length)} found of ${total}`;
  counts.classList.toggle('busy', Boolean(loading));
  find('.table').setAttribute('aria-rowcount', loading ? -1 : shown.length + 1);
  if (!loading && !note.classList.contains('bad')) {
    note.hidden = shown.length > 0;
    note.textContent = all.length ? 'No name here matches.' : 'This folder is empty.';
  }
}

/* ---- rows ---- */

const rows = [];         // row elements, reused while scrolling

function makeRow() {
  const row = find('#row').content.firstElementChild.cloneNode(true);
  const [pick, cell, size, time, acts] = row.children, link = cell.firstElementChild, box = pick.firstElementChild;
  const [get, copy] = acts.children;
  spacer.append(row);
  return { row, box, link, get, copy, icon: link.querySelector('use'), label: link.querySelector('bdi'), size, time, entry: null };
}

function fill(slot, entry, index) {
  slot.row.id = `row-${index}`;
  slot.row.setAttribute('aria-rowindex', index + 2);
  slot.row.classList.toggle('active', index === active);
  slot.index = index;
  slot.box.checked = picked.has(entry.href);
  if (slot.entry === entry) return;
  slot.entry = entry;
  slot.row.classList.toggle('directory', entry.directory);
  slot.icon.setAttribute('href', entry.directory ? '#folder' : '#file');
  slot.link.href = entry.href;
  slot.label.textContent = visible(entry.name);
  slot.box.setAttribute('aria-label', `Select ${visible(entry.name)}`);
  slot.link.title = visible(entry.name);
  slot.get.href = entry.directory ? `${entry.href}?archive=tar` : `${entry.href}?download`;
  for (const [act, label] of [[slot.get, 'Download'], [slot.copy, 'Copy link to']]) {
    act.title = act === slot.get ? 'Download' : 'Copy link';
    act.setAttribute('aria-label', `${label} ${visible(entry.name)}`);
  }
  slot.size.textContent = entry.directory || entry.size == null ? '' : humanSize(entry.size);
  slot.size.title = entry.size == null ? '' : plural(entry.size, 'byte', 'bytes');
  const times = narrow.matches && !entry.directory ? dayFormat : timeFormat;
  slot.time.textContent = entry.modified == null ? '' : times.format(entry.modified);
  slot.time.title = entry.modified == null ? '' : new Date(entry.modified).toISOString();
}

function geometry() {
  const height = rowHeight(), full = shown.length * height, tall = Math.min(full, MAX_HEIGHT);
  const room = Math.max(1, tall - scroller.clientHeight);
  return { height, tall, scale: Math.max(1, (full - scroller.clientHeight) / room) };
}

// The row that has the focused control, or undefined.
const focusedSlot = () => rows.find((slot) => slot.row.contains(document.activeElement));
// The controls of a row, from left to right.
const CONTROLS = ['box', 'link', 'get', 'copy'];
const focusedKind = (slot) => CONTROLS.find((kind) => slot?.[kind] === document.activeElement) ?? 'link';

function render() {
  const held = focusedSlot(), kind = held && focusedKind(held);
  const { height, tall, scale } = geometry();
  spacer.style.height = `${tall}px`;
  const top = scroller.scrollTop * scale;
  const first = Math.max(0, Math.floor(top / height) - MARGIN);
  const last = Math.min(shown.length, Math.ceil((top + scroller.clientHeight) / height) + MARGIN);
  while (rows.length < last - first) rows.push(makeRow());
  const used = new Set();
  for (let index = first; index < last; index += 1) {
    const slot = rows[index % rows.length];
    used.add(slot);
    fill(slot, shown[index], index);
    slot.row.hidden = false;
    slot.row.style.transform = `translateY(${index * height - top + scroller.scrollTop}px)`;
  }
  for (const slot of rows) if (!used.has(slot)) slot.row.hidden = true;
  // Tab reaches one row: the row of the keyboard cursor, or the nearest in the document.
  const reached = Math.max(first, Math.min(last - 1, Math.max(0, active)));
  for (const slot of used) slot.box.tabIndex = slot.link.tabIndex = slot.index === reached ? 0 : -1;
  // Rows are reused. The focus stays with its entry, or with the list if the entry is out of sight.
  if (held) focusOn(active, kind);
}

function focusOn(index, kind) {
  const slot = rows.find((one) => !one.row.hidden && one.index === index);
  (slot ? slot[kind] : scroller).focus({ preventScroll: true });
}

let painting = false;
function renderSoon() {
  if (painting) return;
  painting = true;
  requestAnimationFrame(() => { painting = false; render(); });
}

function moveTo(index) {
  active = Math.max(0, Math.min(shown.length - 1, index));
  const { height, scale } = geometry();
  const top = scroller.scrollTop * scale, view = scroller.clientHeight;
  if (active * height < top) scroller.scrollTop = (active * height) / scale;
  else if ((active + 1) * height > top + view) scroller.scrollTop = ((active + 1) * height - view) / scale;
  const kind = focusedKind(focusedSlot());
  render();
  focusOn(active, kind);
}

/* ---- selection ---- */

function pick(entries, on) {
  for (const entry of entries) {
    if (on) picked.set(entry.href, entry); else picked.delete(entry.href);
  }
  showPicked();
}

function showPicked() {
  const box = find('#pick-all'), count = shown.reduce((n, entry) => n + picked.has(entry.href), 0);
  box.checked = count > 0 && count === shown.length;
  box.indeterminate = count > 0 && count < shown.length;
  box.disabled = shown.length === 0;
  renderSoon();
  document.dispatchEvent(new Event('firstbyte:picked'));
}

/* ---- the stream ---- */

const strict = new TextDecoder('utf-8', { fatal: true });

// A name that is not UTF-8 also comes in hex. Its invalid bytes are shown as \xNN.
function spell(bytes) {
  let out = '';
  for (let at = 0; at < bytes.length;) {
    let taken = 0;
    for (let length = 1; length <= 4 && !taken; length += 1) {
      try {
        out += strict.decode(bytes.subarray(at, at + length));
        taken = length;
      } catch { /* perhaps a longer character */ }
    }
    if (!taken) out += `\\x${bytes[at].toString(16).padStart(2, '0')}`;
    at += taken || 1;
  }
  return out;
}

function entryOf(line) {
  const { name: text, name_hex: hex, kind, size, modified } = JSON.parse(line);
  const directory = kind === 'directory';
  const name = hex ? spell(Uint8Array.from(hex.match(/../g), (byte) => parseInt(byte, 16))) : text;
  // Relative, with `./` in front, so that a name such as `javascript:x` stays a name.
  const href = `./${hex ? hex.replace(/../g, '%$&') : encodeURIComponent(text)}${directory ? '/' : ''}`;
  return { name, folded: name.toLocaleLowerCase(), href, path: href.slice(2).replace(/\/$/, ''), directory, size: directory ? null : size, modified: Date.parse(modified) || null };
}

async function* lines(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    const pieces = (rest + (value ?? '')).split('\n');
    rest = done ? '' : pieces.pop();
    yield pieces.filter(Boolean);
    if (done) return;
  }
}

async function load() {
  loading?.abort();
  const mine = loading = new AbortController();
  const fresh = [];
  const first = all.length === 0;
  let sorted = 0;
  try {
    const response = await fetch('?format=ndjson', { signal: mine.signal, headers: { accept: 'application/x-ndjson' } });
    if (!response.ok) throw new Error(`the server answered ${response.status} ${response.statusText}`);
    for await (const batch of lines(response.body)) {
      for (const line of batch) fresh.push(entryOf(line));
      // A reload replaces the list at its end. A first load shows the growing list, sorted again when it has doubled.
      if (first && fresh.length > 2 * sorted) {
        sorted = fresh.length;
        all = fresh.slice();
        arrange();
      }
    }
    note.classList.remove('bad');
    all = fresh;
  } catch (error) {
    if (mine.signal.aborted) return;
    note.classList.add('bad');
    note.hidden = false;
    note.textContent = `The list could not be read to its end: ${error.message}. Reload the page to try again.`;
    all = fresh;
  }
  loading = null;
  const there = new Map(all.map((entry) => [entry.href, entry]));
  for (const href of picked.keys()) {
    if (there.has(href)) picked.set(href, there.get(href)); else picked.delete(href);
  }
  arrange();
  document.body.dataset.loaded = all.length;
}

/* ---- events ---- */

find('.head').addEventListener('click', (event) => {
  const by = event.target.closest('button')?.dataset.by;
  if (!by) return;
  sort = { by, down: sort.by === by ? !sort.down : by !== 'name' };
  for (const button of document.querySelectorAll('.head button')) {
    const on = button.dataset.by === by;
    button.parentElement.setAttribute('aria-sort', on ? (sort.down ? 'descending' : 'ascending') : 'none');
  }
  scroller.scrollTop = 0;
  arrange();
});

search.addEventListener('input', () => { scroller.scrollTop = 0; active = -1; filter(); });
search.addEventListener('keydown', (event) => {
  if (event.key === 'ArrowDown' || event.key === 'Enter') { event.preventDefault(); scroller.focus(); moveTo(0); }
  if (event.key === 'Escape') { search.value = ''; filter(); }
});

scroller.addEventListener('keydown', (event) => {
  const view = Math.max(1, Math.floor(scroller.clientHeight / rowHeight()) - 1);
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: view, PageUp: -view, Home: -Infinity, End: Infinity }[event.key];
  if (step) { event.preventDefault(); moveTo(active + step); }
  const slot = focusedSlot();
  const aside = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (aside && slot) slot[CONTROLS[Math.max(0, Math.min(CONTROLS.length - 1, CONTROLS.indexOf(focusedKind(slot)) + aside))]].focus();
  if (event.key === 'Enter' && event.target === scroller && shown[active]) { moveTo(active); focusedSlot()?.link.click(); }
  if (event.key === ' ' && event.target !== slot?.box && event.target !== slot?.copy && shown[active]) {
    event.preventDefault();
    pick([shown[active]], !picked.has(shown[active].href));
  }
});
scroller.addEventListener('focusin', () => {
  const slot = focusedSlot();
  if (slot && slot.index !== active) { active = slot.index; render(); }
});
scroller.addEventListener('change', (event) => {
  const slot = rows.find((one) => one.box === event.target);
  pick([slot.entry], slot.box.checked);
});
find('#pick-all').addEventListener('change', (event) => pick(shown, event.target.checked));

document.addEventListener('keydown', (event) => {
  const typing = event.target.closest('input, textarea, select') || event.ctrlKey || event.metaKey || event.altKey;
  if (event.key === '/' && !typing) { event.preventDefault(); search.focus(); }
});

scroller.addEventListener('scroll', renderSoon, { passive: true });
addEventListener('resize', renderSoon);
narrow.addEventListener('change', renderSoon);
document.addEventListener('firstbyte:changed', load);
load();
