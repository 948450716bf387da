/** Settings of a process that has this name, as in a pod of it. */
export const inPod = (name: string) => ({
  POD_NAMESPACE: 'tollgate',
  POD_NAME: name,
  POD_UID: `uid-of-${name}`,
})
