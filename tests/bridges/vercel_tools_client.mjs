// A front end with a tool of its own on the AI SDK's chat, which sends results by itself. Prints what it has then.
const [directory, api, ...steps] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls, lastAssistantMessageIsCompleteWithApprovalResponses } = await import(`${directory}/dist/index.js`);

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

const tools = {
  pick_color: {
    description: "Let the person pick a color.",
    parameters: { type: "object", properties: { title: { type: "string" } }, required: ["title"] },
  },
};
const seen = { errors: [], finishes: [], picked: [], requests: 0 };
let answers = true;
const chat = new Chat({
  id: "chat",
  state: new State(),
  transport: new DefaultChatTransport({
    api,
    body: { tools },
    fetch: async (...request) => {
      seen.requests += 1;
      return fetch(...request);
    },
  }),
  onError: (error) => void seen.errors.push(String(error)),
  onFinish: ({ finishReason }) => void seen.finishes.push(finishReason),
  onToolCall: ({ toolCall }) => {
    if (toolCall.toolName !== "pick_color") return;
    seen.picked.push(toolCall.input.title);
    if (answers) void answer(toolCall.toolCallId);
  },
  sendAutomaticallyWhen: (state) => lastAssistantMessageIsCompleteWithToolCalls(state) || lastAssistantMessageIsCompleteWithApprovalResponses(state),
});

function answer(toolCallId) {
  return chat.addToolOutput({ tool: "pick_color", toolCallId, output: { color: "red" } });
}

// Until nothing has happened for a while: the chat sends results on its own.
async function settle() {
  for (let quiet = 0; quiet < 10; quiet += 1) {
    if (chat.status !== "ready" && chat.status !== "error") quiet = 0;
    await new Promise((done) => setTimeout(done, 20));
  }
}

for (const step of steps) {
  const parts = chat.messages.at(-1)?.parts ?? [];
  if (step === "be slow") {
    answers = false;
  } else if (step === "answer") {
    const part = parts.find((part) => part.state === "input-available");
    await answer(part.toolCallId);
  } else if (step === "approve") {
    const part = parts.find((part) => part.state === "approval-requested");
    await chat.addToolApprovalResponse({ id: part.approval.id, approved: true });
  } else if (step === "send") {
    await chat.sendMessage();
  } else {
    await chat.sendMessage({ text: step });
  }
  await settle();
}
console.log(JSON.stringify({ messages: chat.messages, ...seen }));
