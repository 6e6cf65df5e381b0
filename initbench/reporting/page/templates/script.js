"use strict";
// The table of all trials: drawn from the data in the page, sorted by its headings, filtered by words and choices.
(() => {
  const data = JSON.parse(document.getElementById("trials-data").textContent);
  data.columns.forEach(({ texts }, index) => {
    if (texts) data.rows.forEach((row) => { row[index] = texts[row[index]]; });
  });
  const table = document.getElementById("trials");
  const status = document.getElementById("trials-shown");
  const more = document.getElementById("more");
  const STEP = 50;
  let limit = STEP;
  let sorted = { column: -1, direction: 1 };

  const written = {
    text: (value) => value,
    count: (value) => String(value),
    number: (value) => value.toPrecision(3),
    seconds: (value) => (value < 100 ? `${value.toFixed(2)} s` : `${(value / 60).toFixed(1)} min`),
  };
  const metric = (value, { scale, unit, digits }) =>
    `${digits === null ? (scale * value).toPrecision(4) : (scale * value).toFixed(digits)} ${unit}`.trimEnd();
  const text = (value, column) => {
    const kind = data.columns[column].kind;
    return value === null ? "–" : typeof kind === "object" ? metric(value, kind) : written[kind](value);
  };
  const compare = (a, b) =>
    a === b ? 0 : typeof a === "number" && typeof b === "number" ? a - b
      : String(a).localeCompare(String(b), "en", { numeric: true });

  const choices = new Map();
  const words = document.getElementById("trials-words");
  const element = (name, content) => {
    const made = document.createElement(name);
    if (content !== undefined) made.textContent = content;
    return made;
  };

  data.columns.forEach((column, index) => {
    if (!column.filter) return;
    const select = element("select");
    select.append(new Option("all", ""));
    const values = [...new Set(data.rows.map((row) => row[index]))].sort(compare);
    values.forEach((value) => select.append(new Option(value, value)));
    const label = element("label", column.heading);
    label.append(select);
    document.getElementById("trials-controls").append(label);
    choices.set(index, select);
    select.addEventListener("change", restart);
  });
  words.addEventListener("input", restart);
  more.addEventListener("click", () => { limit += 4 * STEP; draw(); });

  const head = table.createTHead().insertRow();
  data.columns.forEach((column, index) => {
    const cell = element("th");
    const button = element("button", column.heading);
    button.type = "button";
    button.addEventListener("click", () => {
      sorted = { column: index, direction: sorted.column === index ? -sorted.direction : 1 };
      draw();
    });
    cell.scope = "col";
    cell.append(button);
    if (column.kind === "text") cell.className = "text-cell";
    head.append(cell);
  });
  const body = table.createTBody();

  function restart() {
    limit = STEP;
    draw();
  }

  function selected() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = data.rows.filter((row) => {
      for (const [index, select] of choices) if (select.value && row[index] !== select.value) return false;
      if (!wanted.length) return true;
      const all = row.map((value, index) => text(value, index)).join(" ").toLowerCase();
      return wanted.every((word) => all.includes(word));
    });
    const { column, direction } = sorted;
    // What is missing comes last in either order.
    if (column >= 0) {
      rows.sort((a, b) => (a[column] === null) - (b[column] === null) || direction * compare(a[column], b[column]));
    }
    return rows;
  }

  function draw() {
    const rows = selected();
    body.replaceChildren(...rows.slice(0, limit).map((row) => {
      const line = element("tr");
      row.forEach((value, index) => {
        const cell = element("td", text(value, index));
        if (data.columns[index].kind === "text") cell.className = "text-cell";
        if (value === "diverged" || value === "failed") cell.classList.add("bad-text");
        line.append(cell);
      });
      return line;
    }));
    [...head.cells].forEach((cell, index) => {
      if (index !== sorted.column) cell.removeAttribute("aria-sort");
      else cell.setAttribute("aria-sort", sorted.direction > 0 ? "ascending" : "descending");
    });
    const shown = Math.min(limit, rows.length);
    const of = rows.length < data.rows.length ? `${rows.length} (of ${data.rows.length})` : `${rows.length}`;
    status.textContent = `${shown} of ${of} trials shown`;
    more.hidden = shown === rows.length;
  }
  draw();
})();

// Beside the pointer: the label of a figure's mark, or the text of a cell that is cut.
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  document.addEventListener("pointerover", (event) => {
    const cell = event.target.closest("td.text-cell");
    if (cell && cell.scrollWidth > cell.clientWidth) cell.title = cell.textContent;
    const mark = event.target.closest("figure svg path[aria-label]");
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.getAttribute("aria-label");
    tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY > innerHeight / 2 ? event.clientY - tip.offsetHeight - 12 : event.clientY + 16}px`;
  });
})();

// A link to a section, or to something in one, opens it.
(() => {
  const open = () => {
    let name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch { /* as it stands */ }
    const aim = name && document.getElementById(name);
    if (!aim) return;
    for (let at = aim; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    aim.scrollIntoView();
  };
  addEventListener("hashchange", open);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) open();
  });
  open();
})();

// Paper has nothing to click: what is closed is printed open, but for tracebacks and very long tables.
(() => {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open], .long)")];
    opened.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((details) => { details.open = false; }));
})();

// What scrolls can be reached by the keyboard.
(() => {
  const reach = () => document.querySelectorAll(".scroll").forEach((box) => {
    if (box.scrollWidth <= box.clientWidth) return box.removeAttribute("tabindex");
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", box.querySelector("caption").textContent);
  });
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true);
  reach();
})();
