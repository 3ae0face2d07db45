export { type Clock } from "./clock.js";
export { startTestServer, type CallWanted, type TestServer, type TestServerOptions } from "./test-server.js";
