import { Modal, type ModalProps } from '@mantine/core'
import { createContext, useContext } from 'react'

/** Whether the page is hidden because its session has ended. */
export const HiddenContext = createContext(false)

/** A dialog over the page. Hidden with the page, it keeps what was entered. */
export function Dialog({ opened, ...rest }: ModalProps) {
  const isHidden = useContext(HiddenContext)
  return <Modal {...rest} opened={opened && !isHidden} keepMounted={opened} />
}
