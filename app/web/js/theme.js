/** Light or dark: as the system has it, until the person says otherwise. */

import { remember, remembered } from "./storage.js";

export function applyTheme() {
  const theme = remembered("theme");
  if (theme) document.documentElement.dataset.theme = theme;
}

export function switchTheme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  remember("theme", dark ? "light" : "dark");
  applyTheme();
}
