// Fetches the middle of the page again when the server tells that something has changed, and lets
// ages grow in between. After each it rests four times as long as that took, so that an open page
// of a large table does not keep the server busy.
"use strict";
const live = document.getElementById("live");
const path = document.body.dataset.events;
let busy = false;
let again = false;
let shownAt = performance.now();

async function refresh() {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  const began = performance.now();
  try {
    // Also what cannot be shown is a page, with the reason.
    const answer = await fetch(location.href, { cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (fresh.getElementById("main")) show(fresh);
  } catch {
    say("not connected");
  } finally {
    setTimeout(rested, 4 * (performance.now() - began));
  }
}

function rested() {
  busy = false;
  if (again) {
    again = false;
    refresh();
  }
}

function show(fresh) {
  const open = new Set(
    [...document.querySelectorAll("details[open] > summary")].map((one) => one.textContent),
  );
  for (const summary of fresh.querySelectorAll("details > summary")) {
    summary.parentElement.open = open.has(summary.textContent);
  }
  // What is being typed stays, and so does the place of the keyboard.
  for (const kept of document.querySelectorAll("main form")) {
    const twin = [...fresh.querySelectorAll("main form")].find((one) => one.className === kept.className);
    if (twin && kept.contains(document.activeElement)) twin.replaceWith(kept);
  }
  const focus = document.activeElement;
  const link = focus && focus.getAttribute("href");
  document.getElementById("main").replaceChildren(...fresh.getElementById("main").children);
  if (focus && focus.isConnected) focus.focus({ preventScroll: true });
  else if (link) {
    const twin = [...document.querySelectorAll("main a")].find((one) => one.getAttribute("href") === link);
    if (twin) twin.focus({ preventScroll: true });
  }
  shownAt = performance.now();
  document.body.dataset.shown = String(Number(document.body.dataset.shown || 0) + 1);
  say("live");
}

function say(text) {
  if (live.textContent !== text) live.textContent = text;
  live.className = text === "live" ? "on" : "off";
}

function age(seconds) {
  for (const [unit, name, smaller, of] of [
    [86400, "d", 3600, "h"],
    [3600, "h", 60, "min"],
    [60, "min", 1, "s"],
  ]) {
    if (seconds >= unit) {
      const rest = Math.floor((seconds % unit) / smaller);
      return `${Math.floor(seconds / unit)} ${name}${rest ? ` ${rest} ${of}` : ""}`;
    }
  }
  return `${seconds} s`;
}

setInterval(() => {
  const passed = Math.floor((performance.now() - shownAt) / 1000);
  for (const one of document.querySelectorAll("[data-since]")) {
    one.textContent = age(Number(one.dataset.since) + passed);
  }
}, 1000);

if (path) {
  const events = new EventSource(path);
  events.addEventListener("open", () => say("live"));
  events.addEventListener("changed", refresh);
  events.addEventListener("error", () => say("not connected"));
}
