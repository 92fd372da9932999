// A front end on the AI SDK's own chat. With prompts: asks a server, and answers what it is asked about. With a file: reads the
// streams in it. Prints what it has then.
import { readFileSync } from "node:fs";

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

function openChat(options) {
  const seen = { errors: [], data: [], finishes: [] };
  const chat = new Chat({
    id: "chat",
    state: new State(),
    transport: new DefaultChatTransport(options),
    onError: (error) => void seen.errors.push(String(error)),
    onData: (part) => void seen.data.push(part),
    onFinish: ({ finishReason }) => void seen.finishes.push(finishReason),
  });
  return [chat, seen];
}

async function converse() {
  const [chat, seen] = openChat({ api });
  for (const prompt of prompts) {
    if (prompt.startsWith("{")) {
      const part = chat.messages.at(-1).parts.find((part) => part.state === "approval-requested");
      await chat.addToolApprovalResponse({ id: part.approval.id, ...JSON.parse(prompt) });
      await chat.sendMessage();
    } else if (prompt === "regenerate") {
      await chat.regenerate();
    } else if (prompt.startsWith("edit ")) {
      const { id } = chat.messages.findLast((message) => message.role === "user");
      await chat.sendMessage({ text: prompt.slice(5), messageId: id });
    } else {
      await chat.sendMessage({ text: prompt });
    }
  }
  return { messages: chat.messages, ...seen };
}

async function replay() {
  const result = {};
  for (const [name, body] of Object.entries(JSON.parse(readFileSync(api, "utf8")))) {
    const [chat, seen] = openChat({ fetch: async () => new Response(body) });
    await chat.sendMessage({ text: "hi" });
    result[name] = { messages: chat.messages, ...seen };
  }
  return result;
}

console.log(JSON.stringify(prompts.length ? await converse() : await replay()));
