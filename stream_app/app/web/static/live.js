// Keeps an open page right without loading it again. The server sends the version of what it shows
// in an event stream, first of all when the stream opens; a page of another version is fetched, and
// only what differs is put in its place. So forms, open entries, scrolling and focus stay.
"use strict";
const live = document.getElementById("live");
const path = document.body.dataset.events;
const LATER_MS = 5000; // until the next try, when the server or a proxy before it does not answer
const REST = 4; // times as long as a refresh took: an open page of a large table must not keep the server busy
let events = null;
let wanted = document.body.dataset.version;
let busy = false;
let shownAt = performance.now();

function listen() {
  if (document.hidden) return;
  events = new EventSource(path);
  events.addEventListener("open", () => say("live"));
  events.addEventListener("changed", (event) => {
    wanted = event.data;
    refresh();
  });
  events.addEventListener("error", (error) => {
    say("not connected");
    // A browser tries again by itself, but not after a response such as 502.
    if (error.target.readyState === EventSource.CLOSED) setTimeout(listenAgain, LATER_MS);
  });
}

function listenAgain() {
  if (events === null || events.readyState === EventSource.CLOSED) listen();
}

// A browser keeps six connections to a server, so hidden tabs give theirs back.
function hiddenOrShown() {
  if (document.hidden) {
    events?.close();
    events = null;
  } else listenAgain();
}

async function refresh() {
  if (busy || wanted === document.body.dataset.version) return;
  if (selects()) {
    say("waits for the end of your selection");
    return;
  }
  busy = true;
  const asked = wanted;
  const began = performance.now();
  let rest = LATER_MS;
  try {
    // Also what cannot be shown is a page, with the reason.
    const response = await fetch(location.href, { cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    if (fresh.getElementById("main")) {
      show(fresh);
      // What was read may be newer than what was announced, never older.
      document.body.dataset.version = fresh.body.dataset.version;
      if (wanted === asked) wanted = document.body.dataset.version;
      rest = REST * (performance.now() - began);
    }
  } catch {
    say("not connected");
  }
  setTimeout(() => {
    busy = false;
    refresh();
  }, rest);
}

function selects() {
  const chosen = getSelection();
  return !chosen.isCollapsed && document.getElementById("main").contains(chosen.anchorNode);
}

function show(fresh) {
  become(document.getElementById("main"), fresh.getElementById("main"));
  shownAt = performance.now();
  say("live");
}

// Nodes of one kind, at one place or with one key, stand for the same thing.
function keyOf(node) {
  return `${node.nodeName} ${node.dataset?.key ?? node.attributes?.["aria-labelledby"]?.value ?? ""}`;
}

// Makes a node like a fresh one.
function become(node, fresh) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.nodeValue !== fresh.nodeValue) node.nodeValue = fresh.nodeValue;
    return;
  }
  for (const name of new Set([...node.getAttributeNames(), ...fresh.getAttributeNames()])) {
    const value = fresh.getAttribute(name);
    if (name === "open") continue; // opened or closed by hand
    if (value === null) node.removeAttribute(name);
    else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  const children = [...fresh.childNodes];
  const keys = children.map(keyOf);
  let at = node.firstChild;
  children.forEach((child, index) => {
    while (at && keyOf(at) !== keys[index] && !keys.includes(keyOf(at), index)) at = without(at);
    if (at && keyOf(at) === keys[index]) {
      become(at, child);
      at = at.nextSibling;
    } else node.insertBefore(child, at);
  });
  while (at) at = without(at);
}

function without(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function say(text) {
  if (live.textContent !== text) live.textContent = text;
  live.className = text === "not connected" ? "off" : "on";
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
  if (selects()) return;
  const passed = Math.floor((performance.now() - shownAt) / 1000);
  for (const one of document.querySelectorAll("[data-since]")) {
    one.textContent = age(Number(one.dataset.since) + passed);
  }
}, 1000);

if (path) {
  listen();
  document.addEventListener("visibilitychange", hiddenOrShown);
  document.addEventListener("selectionchange", refresh);
}
