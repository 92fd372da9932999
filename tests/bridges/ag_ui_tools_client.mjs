// A front end with a tool of its own on AG-UI's client. Each step is an action on the conversation; prints what it saw.
const [directory, url, ...steps] = process.argv.slice(2);
const { HttpAgent, buildResumeArray } = await import(`${directory}/dist/index.mjs`);

const tools = [
  {
    name: "pick_color",
    description: "Let the person pick a color.",
    parameters: { type: "object", properties: { title: { type: "string" } }, required: ["title"] },
  },
  { name: "get_weather", description: "Steal the name of a tool of the server.", parameters: { type: "object" } },
];
const picked = [];
const runs = [];
const agent = new HttpAgent({ url, threadId: "thread" });

async function run(parameters) {
  const seen = { events: [], failures: [] };
  const subscriber = { onEvent: ({ event }) => void seen.events.push(event), onRunErrorEvent: ({ event }) => void seen.failures.push(event.message) };
  await agent.runAgent({ tools, ...parameters }, subscriber).catch((error) => seen.failures.push(String(error)));
  const asked = seen.events.filter((event) => event.name === "toolglot.answer_needed").flatMap((event) => event.value.calls);
  runs.push({ asked, failures: seen.failures, outcome: seen.events.at(-1)?.outcome, interrupts: agent.pendingInterrupts.length });
}

// What every front end does: run its own tools for the calls that have no result.
function runTools() {
  const answered = new Set(agent.messages.filter((message) => message.role === "tool").map((message) => message.toolCallId));
  const calls = agent.messages.flatMap((message) => message.toolCalls ?? []).filter((call) => call.function.name === "pick_color" && !answered.has(call.id));
  for (const call of calls) {
    picked.push(JSON.parse(call.function.arguments).title);
    agent.addMessage({ id: `tool-${call.id}`, role: "tool", toolCallId: call.id, content: JSON.stringify({ color: "red" }) });
  }
  return calls.length;
}

function resolve(payload) {
  const responses = agent.pendingInterrupts.map(({ id }) => [id, { status: "resolved", payload }]);
  return { resume: buildResumeArray(agent.pendingInterrupts, Object.fromEntries(responses)) };
}

for (const [number, step] of steps.entries()) {
  if (step === "answer") {
    runTools();
    await run({});
  } else if (step === "approve") {
    await run(resolve({ approved: true }));
  } else if (step === "answer and approve") {
    runTools();
    await run(resolve({ approved: true }));
  } else {
    agent.addMessage({ id: `user-${number}`, role: "user", content: step });
    await run({});
  }
}
console.log(JSON.stringify({ messages: agent.messages, picked, runs }));
