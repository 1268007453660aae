/** The language of the page: the person's choice, else the browser's. */

import { remember, remembered } from "./storage.js";
import en from "./texts/en.js";
import zh from "./texts/zh.js";

const LANGUAGES = { en, zh };
export const language = remembered("language") ?? (navigator.language?.toLowerCase().startsWith("zh") ? "zh" : "en");
const texts = LANGUAGES[language] ?? en;

/** The text of `key` with `{name}` filled in. A text that is missing in a language is shown in English. */
export function t(key, values = {}) {
  const text = texts[key] ?? en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

export const number = (value) => (value ?? 0).toLocaleString(language === "zh" ? "zh-CN" : "en-US");

/** 31234 → "31.2k"; for places where space is short. */
export function short(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1000) return String(value);
  if (value < 1_000_000) return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

export function when(iso) {
  return new Date(iso).toLocaleString(language === "zh" ? "zh-CN" : "en-US", { dateStyle: "medium", timeStyle: "short" });
}

export function switchLanguage() {
  remember("language", language === "zh" ? "en" : "zh");
  location.reload();
}

/** Fills in what stands in index.html. */
export function translatePage() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const node of document.querySelectorAll("[data-text]")) node.textContent = t(node.dataset.text);
  for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", t(node.dataset.label));
}
