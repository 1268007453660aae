/** What stands in the page, by key: a node is built again only when its stamp is another one. */

import { keepFocus } from "./dom.js";
import { growText } from "./message.js";

export class Sheet {
  /** `list`: the element whose children the nodes are. */
  constructor(list) {
    this._list = list;
    this._nodes = new Map(); // key → {node, version, stamp}
  }

  has(key) {
    return this._nodes.has(key);
  }

  nodeOf(key) {
    return this._nodes.get(key)?.node;
  }

  /** Shows `items` (`{key, stamp, build}`) in this order, and nothing else. */
  show(items) {
    const kept = new Set(items.map(({ key }) => key));
    for (const [key, { node }] of this._nodes) {
      if (kept.has(key)) continue;
      node.remove();
      this._nodes.delete(key);
    }
    let place = this._list.firstChild;
    for (const node of items.map((item) => this._nodeFor(item))) {
      if (node === place) place = place.nextSibling;
      else this._list.insertBefore(node, place);
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  }

  _nodeFor({ key, stamp, build }) {
    const known = this._nodes.get(key);
    if (known && known.stamp === stamp) return known.node;
    const node = build();
    keepFocus(known?.node, node);
    this._nodes.set(key, { node, stamp, version: Number(String(stamp).split("/")[0]) || 0 });
    return node;
  }

  /** Writes on the text of messages that only grew. False when one of them has to be built again. */
  grow(entries) {
    return entries.length > 0 && entries.every((entry) => this._growOne(entry));
  }

  _growOne(entry) {
    const shown = this._nodes.get(entry.key);
    if (!shown) return false;
    if (shown.version === entry.version) return true;
    if (!growText(shown.node, entry)) return false;
    shown.version = entry.version;
    return true;
  }

  /** Changes what is shown by `change`, and returns by how many pixels that moved what one looks at, which is below `top`. */
  shiftBy(change, top) {
    const seen = [...this._list.children].map((node) => ({ node, at: node.getBoundingClientRect() })).filter(({ node, at }) => at.bottom > top && node.dataset.key);
    change();
    const still = seen.map(({ node, at }) => ({ node: this.nodeOf(node.dataset.key), at })).find(({ node }) => node?.isConnected);
    return still ? still.node.getBoundingClientRect().top - still.at.top : 0;
  }
}
