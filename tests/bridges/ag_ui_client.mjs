// A front end on AG-UI's own client. With prompts: asks a server, and answers what it is asked about. With a file: reads the
// streams in it. Prints what it saw.
import { readFileSync } from "node:fs";

const [directory, url, ...prompts] = process.argv.slice(2);
const { HttpAgent, buildResumeArray } = await import(`${directory}/dist/index.mjs`);

async function run(agent, parameters) {
  const events = [];
  const failures = [];
  const subscriber = { onEvent: ({ event }) => void events.push(event), onRunErrorEvent: ({ event }) => void failures.push(event) };
  await agent.runAgent(parameters, subscriber).catch((error) => failures.push({ thrown: String(error) }));
  return { events, failures, interrupts: agent.pendingInterrupts, messages: agent.messages };
}

async function converse() {
  const agent = new HttpAgent({ url, threadId: "thread" });
  const runs = [];
  for (const [number, prompt] of prompts.entries()) {
    if (prompt.startsWith("{")) {
      const payload = JSON.parse(prompt);
      const responses = agent.pendingInterrupts.map(({ id }) => [id, { status: "resolved", payload }]);
      runs.push(await run(agent, { resume: buildResumeArray(agent.pendingInterrupts, Object.fromEntries(responses)) }));
    } else {
      agent.addMessage({ id: `user-${number}`, role: "user", content: prompt });
      runs.push(await run(agent, {}));
    }
  }
  return { messages: agent.messages, runs };
}

async function replay() {
  const seen = {};
  for (const [name, body] of Object.entries(JSON.parse(readFileSync(url, "utf8")))) {
    const headers = { "content-type": "text/event-stream" };
    const agent = new HttpAgent({ url: "http://localhost", threadId: "chat", fetch: async () => new Response(body, { headers }) });
    seen[name] = await run(agent, { runId: "run" });
  }
  return seen;
}

console.log(JSON.stringify(prompts.length ? await converse() : await replay()));
