"use strict";
// Shows what the program sends. Every foreign text is set by textContent. The page keeps one event, no more.

const element = (id) => document.getElementById(id);
const state = { view: "consumers", order: null, descending: null, wanted: "", row: null };
let source = null; // The stream of events; null while paused.
let latest = null; // The last event.
let again = null; // The timer that opens the stream again.

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Makes `parent` have as many children as `items`, each made by `make`, and calls `fill` with each child and its item.
function fillChildren(parent, items, make, fill) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  while (parent.children.length < items.length) parent.append(make());
  items.forEach((item, i) => fill(parent.children[i], item, i));
}

function make(name, className) {
  const made = document.createElement(name);
  if (className) made.className = className;
  return made;
}

function showPairs(list, pairs) {
  const texts = pairs.flat();
  if (list.children.length !== texts.length) {
    list.replaceChildren(...texts.map((_, i) => make(i % 2 ? "dd" : "dt")));
  }
  texts.forEach((text, i) => setText(list.children[i], text));
}

function showViews(views) {
  fillChildren(element("views"), views, () => {
    const button = make("button");
    button.type = "button";
    button.setAttribute("role", "tab");
    button.append(document.createTextNode(""), make("span"));
    button.addEventListener("click", () => choose({ view: button.value, order: null, descending: null, row: null }));
    return button;
  }, (button, [name, title, count]) => {
    button.value = name;
    setText(button.firstChild, title);
    setText(button.lastChild, count);
    button.setAttribute("aria-selected", String(name === latest.view));
  });
}

function showHead(columns) {
  fillChildren(element("head"), columns, () => {
    const cell = make("th");
    const button = make("button");
    button.type = "button";
    button.addEventListener("click", () => {
      const order = [...cell.parentNode.children].indexOf(cell);
      const same = order === latest.order;
      choose({ order, descending: same ? !latest.descending : !cell.classList.contains("text") });
    });
    cell.append(button);
    return cell;
  }, (cell, [title, about, isText], i) => {
    cell.className = isText ? "text" : "";
    cell.title = about;
    setText(cell.firstChild, title);
    if (i === latest.order) cell.setAttribute("aria-sort", latest.descending ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
}

function showRows(columns, rows) {
  fillChildren(element("rows"), rows, () => {
    const row = make("tr");
    row.tabIndex = 0;
    row.addEventListener("click", () => choose({ row: row.dataset.key }));
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter") choose({ row: row.dataset.key });
    });
    return row;
  }, (row, [key, cells]) => {
    row.dataset.key = key;
    row.className = key === state.row ? "chosen" : "";
    fillChildren(row, cells, () => make("td"), (cell, text, i) => {
      cell.className = columns[i][2] ? "text" : "";
      cell.title = columns[i][2] ? text : "";
      setText(cell, text);
    });
  });
}

function showChart(history, highest) {
  const most = Math.max(...history, 0);
  const x = (i) => (300 - history.length + 1 + i).toFixed(1);
  const y = (value) => (most > 0 ? 98 - (value / most) * 92 : 98).toFixed(1);
  const points = history.map((value, i) => `${x(i)},${y(value)}`);
  const line = points.length ? `M${points.join("L")}` : "";
  element("line").setAttribute("d", line);
  element("area").setAttribute("d", line ? `${line}L${x(history.length - 1)},100L${x(0)},100Z` : "");
  setText(element("highest"), highest);
}

function showDetails(details) {
  element("details").hidden = details === null;
  if (details === null) return;
  setText(element("title"), details.title);
  element("gone").hidden = !details.gone;
  showPairs(element("pairs"), details.pairs);
}

function showState(text, lost) {
  element("state").hidden = text === "";
  element("state").classList.toggle("lost", lost);
  setText(element("state"), text);
  document.body.classList.toggle("old", lost);
}

function show(event) {
  latest = event;
  document.title = event.title;
  showState(event.state, event.lost);
  showPairs(element("about"), event.about);
  showViews(event.views);
  showHead(event.columns);
  showRows(event.columns, event.rows);
  element("empty").hidden = event.rows.length > 0;
  setText(element("empty"), event.empty);
  setText(element("more"), event.more);
  showChart(event.history, event.highest);
  showDetails(event.details);
}

function choose(change) {
  Object.assign(state, change);
  const kept = new URLSearchParams(Object.entries(state).filter(([, value]) => value !== null && value !== ""));
  history.replaceState(null, "", `#${kept}`);
  open();
}

function open() {
  clearTimeout(again);
  if (source) source.close();
  const query = location.hash.slice(1);
  source = new EventSource(`events?${query}`);
  source.onmessage = (message) => show(JSON.parse(message.data));
  source.onerror = () => {
    showState("crossdock top doesn't answer: has it ended? Trying again.", true);
    // After an answer that isn't a stream of events, the browser doesn't try again by itself.
    if (source && source.readyState === EventSource.CLOSED) again = setTimeout(open, 2000);
  };
  element("pause").setAttribute("aria-pressed", "false");
  setText(element("pause"), "Pause");
}

function pause() {
  clearTimeout(again);
  source.close();
  source = null;
  element("pause").setAttribute("aria-pressed", "true");
  setText(element("pause"), "Go on");
  showState("Paused.", false);
}

element("pause").addEventListener("click", () => (source ? pause() : open()));
element("close").addEventListener("click", () => choose({ row: null }));
element("wanted").addEventListener("input", (event) => choose({ wanted: event.target.value }));
addEventListener("keydown", (event) => {
  if (event.key === "Escape") choose({ row: null });
});

for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
  if (Object.hasOwn(state, key)) state[key] = value;
}
element("wanted").value = state.wanted;
open();
