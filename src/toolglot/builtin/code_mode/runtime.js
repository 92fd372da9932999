// The inside of a script: what it can call, and one function for the process around it. Evaluates to that function.
//
// The script shares this global object and may change every prototype. That harms nobody but itself: built-in functions that
// are used afterwards are captured first, messages are objects without a prototype, and what waits to be sent is one string.
(() => {
  "use strict";
  const { stringify, parse } = JSON;
  const { defineProperty, freeze } = Object;
  const now = Date.now;
  const toString = String;
  const isArray = Array.isArray;
  const uncurry = Function.prototype.bind.bind(Function.prototype.call); // a method as a function of its object
  const match = uncurry(RegExp.prototype.exec);
  const replace = uncurry(String.prototype.replace);
  const includes = uncurry(String.prototype.includes);
  const startsWith = uncurry(String.prototype.startsWith);
  const AsyncFunction = (async () => {}).constructor;
  const PromiseType = Promise;
  const ErrorType = Error;
  const TypeErrorType = TypeError;
  const pending = { __proto__: null };
  const timers = { __proto__: null };
  const EXIT = { __proto__: null };
  const MAX_OUTBOX = 32 << 20; // characters
  let outbox = "";
  let lastId = 0;
  let isDone = false;
  let stored = { __proto__: null };

  for (const name of ["console", "Atomics", "SharedArrayBuffer", "WebAssembly"]) delete globalThis[name];
  globalThis.__timer_manager = undefined; // of mini-racer; it cannot be deleted

  // Half a character, as from cutting an emoji in two, is an escape in JSON, and others refuse to read it.
  const toJson = (value) => {
    const json = stringify(value);
    if (json === undefined || !includes(json, "\\ud")) return json;
    return replace(json, /\\(ud[89a-f][0-9a-f]{2}|.)/g, (escape) => (escape.length > 2 ? "\ufffd" : escape));
  };
  const send = (message) => {
    if (isDone) return;
    if (outbox.length > MAX_OUTBOX && message.type !== "done") throw new ErrorType("too much output at once");
    outbox += toJson(message) + "\n";
  };
  const finish = (error) => {
    send({ __proto__: null, type: "done", error });
    isDone = true;
  };
  const describe = (error) => {
    try {
      // An error's stack begins with its message. The two lines that the parser adds before the script are not counted.
      if (error instanceof ErrorType && typeof error.stack === "string") {
        const line = match(/, <anonymous>:(\d+):\d+\)/, error.stack);
        return toString(error) + (line ? ` (line ${line[1] - 2})` : "");
      }
      return typeof error === "object" && error !== null ? stringify(error) ?? toString(error) : toString(error);
    } catch {
      return "an error that cannot be shown";
    }
  };
  const asText = (value) => {
    if (typeof value !== "object" || value === null) return toString(value);
    return stringify(value) ?? toString(value);
  };

  const callTool = (name, hasInput, input) =>
    new PromiseType((resolve, reject) => {
      const text = hasInput ? toJson(input) : undefined;
      const id = ++lastId;
      pending[id] = { __proto__: null, resolve, reject };
      send({ __proto__: null, type: "call", id, name, input: text });
    });

  const appendImage = (value, detail) => {
    let url = value;
    if (typeof value === "object" && value !== null) {
      url = value.image_url ?? value.imageUrl;
      detail = detail ?? value.detail ?? value._meta?.["codex/imageDetail"];
      if (url === undefined && value.type === "image" && typeof value.data === "string") {
        url = startsWith(value.data, "data:") ? value.data : `data:${value.mimeType ?? "image/png"};base64,${value.data}`;
      }
    }
    if (typeof url !== "string" || match(/^(https?:|data:)/i, url) === null) {
      throw new TypeErrorType("image expects a data URL, { image_url }, or an image of a tool's result");
    }
    send({ __proto__: null, type: "image", url, detail: detail === undefined || detail === null ? "" : toString(detail) });
  };
  const forward = (value) => {
    if (typeof value === "string") return send({ __proto__: null, type: "text", text: value });
    const items = value?.content ?? value?.content_items ?? (value?.type || value?.image_url ? [value] : undefined);
    if (isArray(items)) {
      for (let index = 0; index < items.length; index++) {
        const item = items[index];
        if (typeof item?.text === "string") send({ __proto__: null, type: "text", text: item.text });
        else appendImage(item);
      }
    } else if (typeof value?.output === "string") send({ __proto__: null, type: "text", text: value.output });
    else throw new TypeErrorType("forward_output expects the result of a tool; use text(…) for anything else");
  };

  const globals = {
    text: (value) => send({ __proto__: null, type: "text", text: asText(value) }),
    image: appendImage,
    forward_output: (...values) => {
      for (let index = 0; index < values.length; index++) forward(values[index]);
    },
    notify: (value) => send({ __proto__: null, type: "notify", text: asText(value) }),
    yield_control: () => send({ __proto__: null, type: "yield" }),
    exit: () => {
      finish("");
      throw EXIT;
    },
    store: (key, value) => {
      const text = toJson(value);
      if (text === undefined) throw new TypeErrorType(`store(${stringify(toString(key))}): the value is not serializable`);
      stored[toString(key)] = text;
      send({ __proto__: null, type: "store", name: toString(key), input: text });
    },
    load: (key) => {
      const text = stored[toString(key)];
      return text === undefined ? undefined : parse(text);
    },
    setTimeout: (callback, delay) => {
      timers[++lastId] = { __proto__: null, callback, due: now() + (delay > 0 ? +delay : 0) };
      return lastId;
    },
    clearTimeout: (id) => {
      delete timers[id];
    },
  };
  for (const name in globals) globalThis[name] = globals[name];

  const start = (task) => {
    const tools = { __proto__: null };
    for (const tool of task.tools) {
      let target = tools;
      const path = tool.path;
      for (let index = 0; index < path.length - 1; index++) target = target[path[index]] ??= { __proto__: null };
      const call = (...input) => callTool(tool.name, input.length > 0 && input[0] !== undefined, input[0]);
      target[path[path.length - 1]] = call;
      tools[tool.name] ??= call;
    }
    defineProperty(globalThis, "tools", { value: freeze(tools) });
    defineProperty(globalThis, "ALL_TOOLS", {
      value: task.tools.map(({ name, description }) => freeze({ name, description })),
    });
    for (const key in task.stored) stored[key] = task.stored[key];
    let script;
    try {
      script = new AsyncFunction(`"use strict";${task.code}`);
    } catch (error) {
      return finish(describe(error));
    }
    (async () => {
      try {
        await script();
        finish("");
      } catch (error) {
        finish(error === EXIT ? "" : describe(error) || "Error");
      }
    })();
  };

  const answer = ({ id, value, error }) => {
    const promise = pending[id];
    delete pending[id];
    if (promise === undefined) return;
    if (error === undefined) promise.resolve(value === undefined ? undefined : parse(value));
    else promise.reject(new ErrorType(error));
  };

  const fireTimers = () => {
    for (const id in timers) {
      const timer = timers[id];
      if (timer.due > now()) continue;
      delete timers[id];
      try {
        timer.callback();
      } catch (error) {
        if (!isDone) finish(describe(error) || "Error");
      }
    }
  };

  // What the process around it calls. Without a message: the milliseconds until the next timer, how many calls wait for their
  // results, and all messages since the last time. These are fetched on their own, as promises continue only when a call has
  // returned.
  return (input) => {
    if (input === "") {
      let due = -1;
      for (const id in timers) if (due < 0 || timers[id].due < due) due = timers[id].due;
      const messages = outbox;
      outbox = "";
      let waiting = 0;
      for (const id in pending) waiting++;
      return `${due < 0 ? -1 : due - now()} ${waiting}\n${messages}`;
    }
    const message = parse(input);
    if (message.type === "start") start(message);
    else if (message.type === "answer") answer(message);
    else fireTimers();
    return "";
  };
})()
