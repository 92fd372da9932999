// A front end on the AI SDK's own chat: asks, answers what it is asked about, and prints the messages that it has.
const [directory, api, ...prompts] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport } = await import(`${directory}/dist/index.js`);

class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => void this.messages.push(message);
  popMessage = () => void this.messages.pop();
  replaceMessage = (index, message) => void (this.messages[index] = message);
  snapshot = (value) => structuredClone(value);
}
class Chat extends AbstractChat {}

const errors = [];
const data = [];
const bodies = [];
const finishes = [];
const chat = new Chat({
  id: "chat",
  state: new State(),
  transport: new DefaultChatTransport({
    api,
    fetch: (url, init) => {
      bodies.push(JSON.parse(init.body));
      return fetch(url, init);
    },
  }),
  onError: (error) => void errors.push(String(error)),
  onData: (part) => void data.push(part),
  onFinish: ({ finishReason }) => void finishes.push(finishReason),
});
for (const prompt of prompts) {
  if (prompt.startsWith("{")) {
    const part = chat.messages.at(-1).parts.find((part) => part.state === "approval-requested");
    await chat.addToolApprovalResponse({ id: part.approval.id, ...JSON.parse(prompt) });
    await chat.sendMessage();
  } else {
    await chat.sendMessage({ text: prompt });
  }
}
console.log(JSON.stringify({ messages: chat.messages, errors, data, finishes, bodies }));
