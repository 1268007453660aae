/** What this browser remembers of the person: kept here alone, never sent. */

const PREFIX = "threadkeep.";

export function remembered(name, fallback = null) {
  try {
    return localStorage.getItem(PREFIX + name) ?? fallback;
  } catch {
    return fallback; // Storage can be switched off.
  }
}

export function remember(name, value) {
  try {
    if (value === null || value === "") localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    // Then it holds for this visit only.
  }
}
