// Changes entries: makes folders, renames, deletes and undoes. Also defines `ask`, which sends the
// requests of uploads except those of parts.
'use strict';

class Refusal extends Error {
  constructor(message, code, status) { super(message); this.code = code; this.status = status; }
}

async function ask(method, url, body) {
  let response;
  try {
    response = await fetch(url, {
      method, headers: { 'x-firstbyte-page': '1', 'content-type': 'application/json' }, body: body && JSON.stringify(body),
    });
  } catch {
    throw new Refusal('the connection was lost', 'network', 0);
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  const answer = await response.json().catch(() => ({}));
  throw new Refusal(answer.message ?? `the server answered ${response.status}`, answer.error, response.status);
}

{
  const change = (what, body) => ask('POST', `${page.base}/.firstbyte/changes/${what}?path=${encodeURIComponent(page.path)}`, body);
  const changed = () => document.dispatchEvent(new Event('firstbyte:changed'));

  /* ---- the dialog ---- */

  const dialog = find('#ask'), field = dialog.querySelector('input'), yes = find('#ask-yes'), problem = dialog.querySelector('.bad');
  // The action of the confirmed dialog. The dialog closes unless the action fails or asks again.
  let act = null;

  function confirm({ title, text = '', name = null, label, danger = false }, action) {
    find('#ask-title').textContent = title;
    find('#ask-text').textContent = text;
    field.parentElement.hidden = field.disabled = name === null;
    field.value = name ?? '';
    problem.textContent = '';
    yes.textContent = label;
    yes.className = danger ? 'danger' : 'primary';
    act = action;
    if (!dialog.open) dialog.showModal();
    if (name === null) yes.focus();
    else field.setSelectionRange(0, name.lastIndexOf('.') > 0 ? name.lastIndexOf('.') : name.length);
  }

  dialog.querySelector('form').addEventListener('submit', async (event) => {
    event.preventDefault();
    yes.disabled = true;
    const before = undos.length;
    try {
      const asks = act;
      await act(field.value);
      if (act !== asks) {
        yes.disabled = false;
        changed();
        return;
      }
      dialog.close();
      // The button that opened the dialog may be disabled now.
      (undos.length > before ? find('#undo') : scroller).focus();
      changed();
    } catch (error) {
      problem.textContent = error.message;
    }
    yes.disabled = false;
  });
  find('#ask-cancel').addEventListener('click', () => dialog.close());

  /* ---- the changes ---- */

  find('#make').addEventListener('click', () => {
    confirm({ title: 'New folder', name: '', label: 'Make folder' }, async (name) => {
      await change('folder', { name });
      say(`Made the folder ${visible(name)}.`);
    });
  });

  find('#rename').addEventListener('click', () => {
    const [entry] = picked.values();
    confirm({ title: 'Rename', name: entry.name, label: 'Rename' }, async (name) => {
      await change('rename', { entry: entry.path, name });
      picked.clear();
      say(`Renamed ${visible(entry.name)} to ${visible(name)}.`);
    });
  });

  find('#delete').addEventListener('click', () => {
    const entries = [...picked.values()];
    const what = entries.length === 1 ? visible(entries[0].name) : `${numberFormat.format(entries.length)} entries`;
    const text = `${entries.length === 1 ? 'It goes' : 'They go'} to the trash, which is hidden. The trash is emptied after ${page.kept}, and at once if the bucket is deleted.`;
    const remove = async (body) => {
      const answer = await change('delete', body);
      for (const entry of entries) if (answer.done.some((one) => one.entry === entry.path)) picked.delete(entry.href);
      return answer;
    };
    // If the disk is full, the trash has no space, so only deleting forever works.
    const withoutTrash = (full) => confirm({
      title: `Delete ${full.length === entries.length ? what : `${numberFormat.format(full.length)} entries`} for ever?`,
      text: 'The disk is full: nothing can be kept in the trash. This cannot be undone.', label: 'Delete for ever', danger: true,
    }, async () => {
      const { done, failed } = await remove({ entries: full, forever: true });
      if (failed.length) throw new Refusal(failed.slice(0, 3).map(({ message }) => message).join('; '));
      say(`Deleted ${numberFormat.format(done.length)} for ever.`);
    });
    confirm({ title: `Delete ${what}?`, text, label: 'Delete', danger: true }, async () => {
      const { done, failed } = await remove({ entries: entries.map((entry) => entry.path) });
      const ids = done.map(({ id }) => id);
      if (ids.length) say(`Deleted ${ids.length === entries.length ? what : numberFormat.format(ids.length)}; kept in the trash for ${page.kept}.`, wayBack(ids, what));
      const full = failed.filter(({ error }) => error === 'space').map(({ entry }) => entry);
      if (full.length) return withoutTrash(full);
      if (failed.length) {
        changed();
        throw new Refusal(failed.slice(0, 3).map(({ message }) => message).join('; '));
      }
    });
  });

  const wayBack = (ids, what) => ({ label: `Undo: delete ${what}`, act: () => restore(ids, what) });

  // Entries that were not restored are still in the trash. The restore is offered again, after all
  // other undo actions.
  async function restore(ids, what) {
    say('Bringing back …');
    scroller.focus();
    try {
      const { done, failed } = await change('restore', { ids });
      if (failed.length) undos.unshift(wayBack(failed.map(({ id }) => id), what));
      say(failed.length ? `Not brought back: ${failed.slice(0, 3).map(({ message }) => message).join('; ')}`
        : `Brought back ${numberFormat.format(done.length)}.`);
    } catch (error) {
      undos.unshift(wayBack(ids, what));
      say(`Not brought back: ${error.message}`);
    }
    changed();
  }

  document.addEventListener('firstbyte:picked', () => {
    find('#rename').disabled = picked.size !== 1;
    find('#delete').disabled = picked.size === 0;
  });
}
