const PAUSE = 300; // Milliseconds without a key until the full search.

// The thread that translates. Its program is a blob, since browsers run no other
// worker from file://.
function work() {
  let translate;
  onmessage = ({ data: { model, parts, text, beams } }) => {
    if (model) translate = createTranslator(model, parts);
    postMessage(model ? null : translate(text, beams));
  };
}

function show({ translations, isTruncated }) {
  $("best").textContent = translations[0];
  showChoices(translations.length > 1 ? translations : [],
    choice => { $("best").textContent = choice; });
  setState(isTruncated ? "The text is too long: its end is not translated." : "");
}

function start() {
  const program = [createTokenizer, createEngine, createTranslator, `(${work})()`].join("\n");
  const worker = new Worker(URL.createObjectURL(new Blob([program])));
  let isBusy = true, next = null, timer = null;
  // While the thread is busy only the newest text waits.
  const send = () => {
    if (isBusy || !next) return;
    worker.postMessage(next);
    [isBusy, next] = [true, null];
  };
  const request = beams => {
    next = { text: $("source").value, beams };
    send();
  };
  $("source").addEventListener("input", () => {
    clearTimeout(timer);
    request(1);
    timer = setTimeout(request, PAUSE, model.config.beam_size);
  });
  worker.onmessage = ({ data }) => {
    isBusy = false;
    if (data) show(data);
    else setState("");
    send();
  };
  worker.onerror = event => setState("Error: " + event.message);
  worker.postMessage({ model, parts: modelParts });
  const [source, target] = model.languages;
  if (source && target)
    $("title").textContent = `Translator: ${nameOf(source)} to ${nameOf(target)}`;
  [$("source").lang, $("best").lang] = [source ?? "", target ?? ""];
  if ($("source").value) request(model.config.beam_size);
}

// Only from a server: browsers refuse both from file://.
function registerApp() {
  const link = Object.assign(document.createElement("link"),
    { rel: "manifest", href: "manifest.webmanifest" });
  document.head.append(link);
  navigator.serviceWorker?.register("sw.js");
}

addEventListener("DOMContentLoaded", () => {
  if (typeof model === "undefined") setState("Error: the files beside this page are missing.");
  else start();
  if (location.protocol.startsWith("http")) registerApp();
});
