// The project that is shown. The page remembers the one that was chosen last; access does not depend on it.

const KEY = "filmtransfer.project";
let shown = localStorage.getItem(KEY);

export const projectId = () => shown;
export const setProject = (id) => {
  shown = id;
};
export const rememberProject = (id) => localStorage.setItem(KEY, id);
