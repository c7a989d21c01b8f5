/* turns.h — long staged calls of several threads take turns: few are at work at one time, the others wait. */
#ifndef GG_TURNS_H
#define GG_TURNS_H

/* Waits until fewer than AT_WORK (turns.c) calls of about so many bytes are at work on this GPU; who came first goes first. Calls of another size are
 * not waited for, nor a call that does not end: when nobody has ended for long, all who wait go ahead. Returns the queue, for gg_turn_end. */
int gg_turn_begin(int gpu, double bytes);
void gg_turn_end(int queue);

#endif
