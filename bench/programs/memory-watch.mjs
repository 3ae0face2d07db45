// Loaded into a server beside its own code: collects its garbage and tells its memory when it is asked.
import { settledMemory } from "./settled-memory.mjs";

process.on("message", async (question) => {
  if (question === "memory?") process.send({ bytes: await settledMemory() });
});
process.channel.unref();
