// The filter of the record of claims (claims.md), and opening a claim at its anchor. Without it every row is shown.
(() => {
  const rows = [...document.querySelectorAll("details.claim")];
  if (!rows.length) return;
  const papers = [...document.querySelectorAll(".claims-paper")];
  const about = new Map(
    rows.map((row) => [
      row,
      {
        paper: row.closest(".claims-paper").dataset.paper,
        verdict: row.dataset.verdict,
        evidence: row.dataset.evidence,
        words: [row.id, ...[".c-claim", ".c-run .c-value"].map((part) => row.querySelector(part).textContent)]
          .join(" ")
          .toLowerCase(),
      },
    ]),
  );

  const form = document.createElement("form");
  form.className = "claims-filter";
  const field = (name, control) => {
    const label = document.createElement("label");
    control.name = name;
    label.append(name, control);
    form.append(label);
  };
  const words = document.createElement("input");
  words.type = "search";
  words.placeholder = "of the claim, its id and what was run";
  field("words", words);
  const titles = new Map(papers.map((paper) => [paper.dataset.paper, paper.querySelector("h2").firstChild.textContent]));
  for (const name of ["paper", "verdict", "evidence"]) {
    const values = [...new Set(rows.map((row) => about.get(row)[name]))].filter(Boolean);
    const select = document.createElement("select");
    select.append(new Option("all", ""), ...values.map((value) => new Option(titles.get(value) ?? value, value)));
    field(name, select);
  }
  const clear = document.createElement("button");
  clear.type = "button";
  clear.textContent = "Clear";
  const left = document.createElement("output");
  form.append(clear, left);
  papers[0].before(form);

  const apply = () => {
    const asked = Object.fromEntries(new FormData(form));
    const sought = asked.words.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const own = about.get(row);
      const kept = ["paper", "verdict", "evidence"].every((name) => !asked[name] || asked[name] === own[name]);
      row.hidden = !(kept && sought.every((word) => own.words.includes(word)));
    }
    for (const paper of papers) paper.hidden = !paper.querySelector("details.claim:not([hidden])");
    left.value = `${rows.filter((row) => !row.hidden).length} of ${rows.length} claims`;
    const query = new URLSearchParams(Object.entries(asked).filter(([, value]) => value));
    history.replaceState(null, "", (query.size ? `?${query}` : location.pathname) + location.hash);
  };

  const open = () => {
    const row = rows.find((one) => one.id === decodeURIComponent(location.hash.slice(1)));
    if (!row) return;
    if (row.hidden) {
      form.reset();
      apply();
    }
    row.open = true;
    row.scrollIntoView();
  };

  const asked = new URLSearchParams(location.search);
  for (const [name, value] of asked) if (form.elements[name]) form.elements[name].value = value;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  clear.addEventListener("click", () => {
    form.reset();
    apply();
  });
  window.addEventListener("hashchange", open);
  for (const link of document.querySelectorAll(".c-claim > .headerlink")) {
    link.addEventListener("click", () =>
      navigator.clipboard?.writeText(location.origin + location.pathname + link.hash).catch(() => {}),
    );
  }
  apply();
  open();
})();
