// Copies links to entries to the clipboard. If visitors have keys, links to files are signed and
// expire.
'use strict';

{
  // Browsers allow the clipboard only on https and localhost. Elsewhere a selected text is copied.
  async function copyText(text) {
    if (navigator.clipboard) {
      try { await navigator.clipboard.writeText(text); return true; } catch { /* not allowed: as below */ }
    }
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'unseen';
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    return copied;
  }

  async function signed(entry, seconds) {
    const response = await fetch(`${page.base}/.firstbyte/links?path=${encodeURIComponent(page.path + entry.path)}`, {
      method: 'POST', headers: { 'x-firstbyte-page': '1', 'content-type': 'application/json' }, body: JSON.stringify({ seconds }),
    });
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(answer.message ?? `the server answered ${response.status}`);
    return answer.url;
  }

  async function copyLink(entry) {
    const name = visible(entry.name), choice = find('#valid');
    try {
      // A folder has no S3 object to sign, so its link asks for a key.
      const isSigned = choice && !entry.directory;
      const target = isSigned ? await signed(entry, Number(choice.value)) : entry.href;
      const url = new URL(target, location).href;
      const until = isSigned ? timeFormat.format(Date.now() + Number(choice.value) * 1000) : null;
      if (!await copyText(url)) { prompt('Copy this link:', url); return; }
      say(isSigned ? `Copied a link to ${name}. Anyone who has it can read the file until ${until}.`
        : choice ? `Copied the address of ${name}. Visitors need a key.` : `Copied the link to ${name}.`);
    } catch (error) {
      say(`No link to ${name}: ${error.message}.`);
    }
  }

  scroller.addEventListener('click', (event) => {
    const slot = rows.find((one) => one.copy.contains(event.target));
    if (slot?.entry) copyLink(slot.entry);
  });
}
