/** Server-sent events out of a fetch response, since EventSource can neither POST nor send a key. */

/** Yields `{id, event, data}` with `data` parsed; comments and empty frames are left out. */
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      const frames = rest.split(/\r?\n\r?\n/);
      rest = frames.pop();
      for (const frame of frames) {
        const event = parse(frame);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // It may have been cut off already.
  }
}

function parse(frame) {
  const found = { id: null, event: "message", data: [] };
  for (const line of frame.split(/\r?\n/)) {
    const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name === "data") found.data.push(value);
    else if (name === "id" || name === "event") found[name] = value;
  }
  if (!found.data.length && found.event === "message") return null;
  const text = found.data.join("\n");
  return { id: found.id, event: found.event, data: text ? JSON.parse(text) : null };
}
