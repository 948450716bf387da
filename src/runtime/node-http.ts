/**
 * Node's HTTP without the rest of `node:http`: an `import` reads each of its properties, and the one for web sockets
 * loads the client of `fetch`, which costs a process 40 ms.
 */

export const { Agent, createServer, request } = process.getBuiltinModule('node:http')
