// Keeps the page's files, so that it works offline.
const PREFIX = `export.page ${registration.scope} `, CACHE = PREFIX + "VERSION";
const FILES = FILE_NAMES;

async function install() {
  const cache = await caches.open(CACHE);
  await Promise.all(FILES.map(async file => {
    // A part of the model has the digest of its content as its name.
    const old = file.startsWith("model-") && await caches.match(file);
    await (old ? cache.put(file, old) : cache.add(new Request(file, { cache: "no-cache" })));
  }));
  await skipWaiting();
}

async function removeOldCaches() {
  for (const name of await caches.keys())
    if (name.startsWith(PREFIX) && name !== CACHE) await caches.delete(name);
}

addEventListener("install", event => event.waitUntil(install()));
addEventListener("activate", event => event.waitUntil(removeOldCaches()));
addEventListener("fetch", event => event.respondWith((async () => {
  const cache = await caches.open(CACHE);
  return await cache.match(event.request, { ignoreSearch: true }) ?? fetch(event.request);
})()));
