// Fetches the middle of the page again when the server tells that something has changed.
"use strict";
const live = document.getElementById("live");
const path = document.body.dataset.events;
let busy = false;
let again = false;

async function refresh() {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (answer.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const open = new Set(
        [...document.querySelectorAll("details[open] > summary")].map((one) => one.textContent),
      );
      for (const summary of fresh.querySelectorAll("details > summary")) {
        summary.parentElement.open = open.has(summary.textContent);
      }
      document.getElementById("main").replaceChildren(...fresh.getElementById("main").children);
      document.body.dataset.shown = String(Number(document.body.dataset.shown || 0) + 1);
      say("live");
    }
  } finally {
    busy = false;
    if (again) {
      again = false;
      refresh();
    }
  }
}

function say(text) {
  if (live.textContent !== text) live.textContent = text;
  live.className = text === "live" ? "on" : "off";
}

if (path) {
  const events = new EventSource(path);
  events.addEventListener("open", () => say("live"));
  events.addEventListener("changed", refresh);
  events.addEventListener("error", () => say("not connected"));
}
