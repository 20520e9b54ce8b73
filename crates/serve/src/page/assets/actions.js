// Implements the actions that write nothing: downloads (one file as it is, other selections as a
// tar file), and previews of images and texts. Also offers to undo.
'use strict';

// Undo actions, each { label, act }. The last action is offered, beside any later message, until the user takes it.
const undos = [];

// Shows a message about a finished action, with its undo action if there is one.
function say(text, undo) {
  find('#done').textContent = text;
  if (undo) undos.push(undo);
  const button = find('#undo'), last = undos.at(-1);
  button.hidden = !last;
  button.textContent = last?.label ?? '';
}
find('#undo').addEventListener('click', () => undos.pop().act());

/* ---- download ---- */

{
  // The server accepts heads of at most 64 KiB.
  const MAX_LINK_LENGTH = 60_000;
  const download = find('#download');

  function offerDownload() {
    const chosen = [...picked.values()];
    const [only] = chosen;
    const names = chosen.map((entry) => `&name=${encodeURIComponent(entry.path)}`).join('');
    const tooLong = names.length > MAX_LINK_LENGTH && chosen.length < all.length;
    if (chosen.length === 1 && !only.directory) download.href = `${only.href}?download`;
    else if (tooLong) download.removeAttribute('href');
    else download.href = `?archive=tar${chosen.length < all.length ? names : ''}`;
    download.textContent = chosen.length === 0 ? 'Download folder'
      : tooLong ? 'Too many for one download' : `Download ${numberFormat.format(chosen.length)} selected`;
  }
  document.addEventListener('firstbyte:picked', offerDownload);
}

/* ---- preview ---- */

{
  const IMAGES = /\.(png|jpe?g|gif|webp|avif|svg|ico|bmp)$/i;
  const TEXTS = /\.(txt|log|md|csv|tsv|json|jsonl|ndjson|xml|ya?ml|toml|ini|cfg|conf|rs|py|c|h|cpp|hpp|java|go|sh|js|mjs|ts|css|html?|sql|r|tex|fasta|fa|vcf|bed|gff)$/i;
  // Maximum number of bytes of a text to show.
  const SHOWN_BYTES = 64 * 1024;
  const preview = find('#preview'), content = preview.querySelector('.shown'), state = preview.querySelector('.state');

  // An image is drawn and a text is inserted as characters. Neither becomes a document, so no script in it runs.
  function showImage(entry) {
    const image = new Image();
    image.alt = visible(entry.name);
    image.onerror = () => { state.textContent = 'This image cannot be shown.'; };
    image.src = entry.href;
    content.replaceChildren(image);
  }

  async function showText(entry) {
    state.textContent = 'Reading …';
    const text = document.createElement('pre');
    text.tabIndex = 0;
    content.replaceChildren(text);
    try {
      const range = entry.size ? { range: `bytes=0-${SHOWN_BYTES - 1}` } : {};
      const response = await fetch(entry.href, { headers: range });
      if (!response.ok) throw new Error(`the server answered ${response.status}`);
      text.textContent = await response.text();
      state.textContent = entry.size > SHOWN_BYTES ? `The first ${humanSize(SHOWN_BYTES)} of ${humanSize(entry.size)}` : '';
    } catch (error) {
      state.textContent = `This text cannot be shown: ${error.message}.`;
    }
  }

  function showPreview(entry) {
    find('#preview-name').textContent = visible(entry.name);
    find('#preview-open').href = entry.href;
    find('#preview-save').href = `${entry.href}?download`;
    state.textContent = '';
    if (IMAGES.test(entry.name)) showImage(entry); else showText(entry);
    preview.showModal();
  }

  scroller.addEventListener('click', (event) => {
    const slot = rows.find((one) => one.link.contains(event.target)), entry = slot?.entry;
    const plain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
    if (!plain || !entry || entry.directory || slot.link.hasAttribute('download')) return;
    if (IMAGES.test(entry.name) || TEXTS.test(entry.name)) { event.preventDefault(); showPreview(entry); }
  });
  find('#preview-close').addEventListener('click', () => preview.close());
  preview.addEventListener('close', () => content.replaceChildren());
}
