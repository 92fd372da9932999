// A front end on AG-UI's own client: asks, answers what it is asked about, and prints what it saw.
const [directory, url, ...prompts] = process.argv.slice(2);
const { HttpAgent, buildResumeArray } = await import(`${directory}/dist/index.mjs`);

const agent = new HttpAgent({ url, threadId: "thread" });
const runs = [];
const run = async (parameters) => {
  const events = [];
  const failures = [];
  const subscriber = { onEvent: ({ event }) => void events.push(event), onRunErrorEvent: ({ event }) => void failures.push(event) };
  await agent.runAgent(parameters, subscriber).catch((error) => failures.push({ thrown: String(error) }));
  runs.push({ events, failures, interrupts: agent.pendingInterrupts });
};
for (const [number, prompt] of prompts.entries()) {
  if (prompt.startsWith("{")) {
    const payload = JSON.parse(prompt);
    const responses = agent.pendingInterrupts.map(({ id }) => [id, { status: "resolved", payload }]);
    await run({ resume: buildResumeArray(agent.pendingInterrupts, Object.fromEntries(responses)) });
  } else {
    agent.addMessage({ id: `user-${number}`, role: "user", content: prompt });
    await run({});
  }
}
console.log(JSON.stringify({ messages: agent.messages, runs }));
