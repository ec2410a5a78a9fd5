// Also of the page that export.page writes.
const $ = id => document.getElementById(id);

function setState(text) { $("state").textContent = text; }

// The name of a language in that of the reader.
function nameOf(code) {
  try {
    return new Intl.DisplayNames(navigator.languages, {type: "language"}).of(code.replace("_", "-"));
  } catch { return code; }
}

// Buttons of translations, the first of them chosen; calls `show` with others.
function showChoices(translations, show) {
  const list = $("others");
  list.replaceChildren();
  translations.forEach((text, index) => {
    const button = document.createElement("button");
    button.textContent = text;
    button.setAttribute("aria-pressed", String(index === 0));
    button.onclick = () => {
      list.querySelectorAll("button").forEach(each =>
        each.setAttribute("aria-pressed", String(each === button)));
      show(text);
    };
    const item = document.createElement("li");
    item.append(button);
    list.append(item);
  });
}
