/** What a message holds, whatever form its provider gave it: text, reasoning, images, files. */

const SHOWN_IMAGE = /^data:image\/(png|jpe?g|gif|webp|avif);base64,/i;

const blocksOf = (message) => (Array.isArray(message.content) ? message.content : [{ type: "text", text: message.content ?? "" }]);

export function textOf(message) {
  return blocksOf(message)
    .map((block) => (typeof block === "string" ? block : block.type === "text" ? (block.text ?? "") : ""))
    .filter(Boolean)
    .join("\n\n");
}

export function reasoningOf(message) {
  const said = blocksOf(message).map((block) => block.reasoning ?? block.thinking ?? block.summary?.map?.((part) => part.text).join("\n") ?? "");
  return [message.additional_kwargs?.reasoning_content ?? "", ...said].filter(Boolean).join("\n\n");
}

/** Images inside the message, as data URLs; one elsewhere is named and never loaded: that would tell others who reads. */
export function attachmentsOf(message) {
  const found = [];
  for (const block of blocksOf(message)) {
    if (!block || typeof block === "string" || ["text", "reasoning", "thinking", "tool_use", "tool_call"].includes(block.type)) continue;
    const url = block.image_url?.url ?? block.image_url ?? block.url ?? dataUrl(block);
    if (typeof url === "string" && SHOWN_IMAGE.test(url)) found.push({ kind: "image", url });
    else found.push({ kind: "other", name: block.filename ?? block.file?.filename ?? (typeof url === "string" && !url.startsWith("data:") ? url : block.type) });
  }
  return found;
}

function dataUrl(block) {
  const source = block.source ?? block;
  const data = source.base64 ?? source.data;
  const type = source.mime_type ?? source.media_type;
  return data && type ? `data:${type};base64,${data}` : null;
}

/** Arguments of a tool call as text; while they still come in, they are whatever was written so far. */
export function argumentsOf(call) {
  return typeof call.args === "string" ? call.args : JSON.stringify(call.args ?? {}, null, 2);
}

/** One line that says what a call is about. */
export function gistOf(call) {
  if (typeof call.args === "string") return "";
  const values = Object.values(call.args ?? {}).filter((value) => typeof value === "string" || typeof value === "number");
  const gist = String(call.args?.description ?? values[0] ?? "").replace(/\s+/g, " ");
  return gist.length > 90 ? `${gist.slice(0, 90)}…` : gist;
}
