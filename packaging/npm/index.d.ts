/** The path of the server's binary. */
export declare const binary: string;

export interface StartOptions {
  /** A directory to keep the data in; without it the data is in memory. */
  dbpath?: string;
  /** The port to listen on; a free one by default. */
  port?: number;
  /** The name of a set of one, for clients that insist on a set. */
  replicaSet?: string;
  /** Further flags of `quarry serve`. */
  args?: string[];
}

export interface Server {
  /** What a driver connects to. */
  uri: string;
  port: number;
  pid: number;
  /** Stops the server and resolves when it has ended. */
  stop(): Promise<void>;
}

/** Starts a server and resolves when clients can connect. */
export declare function start(options?: StartOptions): Promise<Server>;
