/**
 * Node's HTTP without the rest of `node:http`: an `import` of that reads each of its properties, and that of web sockets loads the
 * client of `fetch`, which takes a process 40 ms.
 */

export const { Agent, createServer, request } = process.getBuiltinModule('node:http')
