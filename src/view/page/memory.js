// What the browser remembers of a reader. A page from a file may have no storage: then it holds until it is closed.
const memory = {
  read(name) {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  },

  write(name, value) {
    try {
      localStorage.setItem(name, value);
    } catch {
      // there is nothing to be done, and nothing else depends on it
    }
  },
};
