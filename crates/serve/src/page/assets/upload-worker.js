// Sends one part at a time: computes its CRC32C, sliced by eight, then sends it and reports progress. A part that
// the server already has with the same sum is not sent.
'use strict';

const TABLES = Array.from({ length: 8 }, () => new Uint32Array(256));
for (let byte = 0; byte < 256; byte += 1) {
  let crc = byte;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  TABLES[0][byte] = crc;
}
for (let byte = 0; byte < 256; byte += 1) {
  for (let k = 1; k < 8; k += 1) {
    const before = TABLES[k - 1][byte];
    TABLES[k][byte] = (before >>> 8) ^ TABLES[0][before & 255];
  }
}

function update(crc, bytes) {
  const [t0, t1, t2, t3, t4, t5, t6, t7] = TABLES;
  let at = 0;
  for (const end = bytes.length - 7; at < end; at += 8) {
    crc ^= bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24);
    crc = t7[crc & 255] ^ t6[(crc >>> 8) & 255] ^ t5[(crc >>> 16) & 255] ^ t4[crc >>> 24]
      ^ t3[bytes[at + 4]] ^ t2[bytes[at + 5]] ^ t1[bytes[at + 6]] ^ t0[bytes[at + 7]];
  }
  for (; at < bytes.length; at += 1) crc = (crc >>> 8) ^ t0[(crc ^ bytes[at]) & 255];
  return crc;
}

async function crc32c(blob) {
  let crc = 0xffffffff;
  const reader = blob.stream().getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return ((crc ^ 0xffffffff) >>> 0).toString(16).padStart(8, '0');
    crc = update(crc, value);
  }
}

let request = null;

onmessage = async ({ data: { url, blob, held } }) => {
  let sum;
  try {
    sum = await crc32c(blob);
  } catch {
    postMessage({ failed: 'the file cannot be read; was it changed or moved?', status: -1 });
    return;
  }
  if (sum === held) { postMessage({ done: true, sum, wasHeld: true }); return; }
  request = new XMLHttpRequest();
  request.open('PUT', url);
  request.setRequestHeader('x-firstbyte-page', '1');
  request.setRequestHeader('x-firstbyte-crc32c', sum);
  request.upload.onprogress = (event) => postMessage({ sent: event.loaded });
  request.onload = () => {
    if (request.status < 300) { postMessage({ done: true, sum }); return; }
    let answer = {};
    try { answer = JSON.parse(request.responseText); } catch { /* a proxy's page, not ours */ }
    postMessage({ failed: answer.message ?? `the server answered ${request.status}`, code: answer.error, status: request.status });
  };
  request.onerror = () => postMessage({ failed: 'the connection was lost', status: 0 });
  request.send(blob);
};
